// Jobs that run programs, as the coordinator sees them.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/manifest.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CoordinatorOptions WithToken() {
  CoordinatorOptions options;
  options.program_token = "the token of the test";
  return options;
}

class ProgramJobsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* id : {"w0", "w1", "w2"}) cluster_.AddWorker(id);
  }

  // Submits a job whose tasks have met.
  std::string Running(const v1::JobSpec& spec) {
    const auto job = cluster_.Submit(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    cluster_.MeetAll(*job);
    EXPECT_EQ(cluster_.State(*job), v1::RUNNING) << cluster_.Status(*job).waiting_for();
    return *job;
  }
  v1::TaskOrder Order(const std::string& job, uint32_t slot) { return *cluster_.Order(job, slot); }
  // Ends a slot's program with another status than 0, and lets the job start again.
  void Crash(const std::string& job, uint32_t slot,
             const std::string& how = "the program ended with status 3") {
    cluster_.End(Order(job, slot), static_cast<int>(absl::StatusCode::kAborted), how);
    cluster_.Pass(absl::Minutes(1));
    if (cluster_.State(job) == v1::RECOVERING) cluster_.MeetAll(job);
  }

  void Cancel(const std::string& job) {
    v1::CancelJobRequest cancel;
    cancel.set_job_id(job);
    ASSERT_TRUE(cluster_.coordinator().jobs().Cancel(cancel).ok());
    cluster_.Pass(absl::Seconds(1));
  }

  SimulatedCluster cluster_{WithToken()};
};

class AlertTest : public ::testing::Test {
 protected:
  AlertTest() : cluster_(Options()) {
    for (const char* id : {"w0", "w1", "w2"}) cluster_.AddWorker(id);
  }

  CoordinatorOptions Options() {
    CoordinatorOptions options = WithToken();
    options.alert = [this](JobAlert alert) {
      alerts_.push_back(absl::StrCat(NameOf(alert.kind), " ", alert.name, ": ", alert.text));
    };
    return options;
  }

  std::vector<std::string> alerts_;
  SimulatedCluster cluster_;
};

TEST_F(AlertTest, AJobsEndIsToldOnce) {
  v1::JobSpec spec = ProgramJob();
  spec.set_name("gpt");
  const std::string job = *cluster_.Submit(spec);
  cluster_.MeetAll(job);
  EXPECT_THAT(alerts_, ElementsAre());
  cluster_.End(*cluster_.Order(job, 0));
  cluster_.End(*cluster_.Order(job, 1));
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
  ASSERT_EQ(alerts_.size(), 1u);
  EXPECT_THAT(alerts_[0], HasSubstr("succeeded gpt: "));
  cluster_.RestartCoordinator();
  EXPECT_EQ(alerts_.size(), 1u);
}

TEST_F(AlertTest, TheFirstLossThatIsNotFiniteIsTold) {
  v1::JobSpec spec = ProgramJob();
  spec.set_name("gpt");
  const std::string job = *cluster_.Submit(spec);
  cluster_.MeetAll(job);
  cluster_.ProgressAll(job, 3);
  EXPECT_THAT(alerts_, ElementsAre());
  for (uint64_t clock : {4, 5}) {
    EXPECT_TRUE(cluster_.Diverge(*cluster_.Order(job, 1), clock).ok());
  }
  EXPECT_THAT(alerts_, ElementsAre("not_finite gpt: slot 1 reported the loss nan at step 4"));
}

TEST_F(AlertTest, AProgramThatIsStuckIsTold) {
  v1::JobSpec spec = ProgramJob();
  spec.set_name("gpt");
  spec.mutable_model()->mutable_program()->set_report_within_seconds(60);
  const std::string job = *cluster_.Submit(spec);
  cluster_.MeetAll(job);
  cluster_.ProgressAll(job, 3);
  cluster_.Pass(absl::Seconds(61));
  ASSERT_EQ(alerts_.size(), 1u);
  EXPECT_THAT(alerts_[0],
              AllOf(HasSubstr("stalled gpt: slot 0 on worker"), HasSubstr("is stuck at step 3")));
}

TEST_F(ProgramJobsTest, EndsWellWhenAllProcessesHave) {
  const std::string job = Running(ProgramJob());
  cluster_.End(Order(job, 1));
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  cluster_.End(Order(job, 0));
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

// The others have theirs, and their processes do not come to meet.
TEST_F(ProgramJobsTest, AnAnswerThatWasLostIsGivenAgainAfterARestart) {
  const std::string job = *cluster_.Submit(ProgramJob());
  auto first = cluster_.Rendezvous(Order(job, 0));
  cluster_.answers_are_lost = true;
  auto lost = cluster_.Rendezvous(Order(job, 1));
  cluster_.answers_are_lost = false;
  ASSERT_TRUE(first.status().ok()) << first.status();
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  auto again = cluster_.Rendezvous(Order(job, 1));
  ASSERT_TRUE(again.status().ok()) << again.status();
  EXPECT_EQ(again.get()->round(), 1u);
  // With it the processes prove themselves to one another.
  EXPECT_EQ(again.get()->secret(), first.get()->secret());
  EXPECT_EQ(again.get()->secret().size(), 32u);
  ASSERT_EQ(again.get()->peers_size(), 2);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(again.get()->peers(rank).SerializeAsString(),
              first.get()->peers(rank).SerializeAsString());
    EXPECT_EQ(again.get()->peers(rank).endpoint(), cluster_.EndpointOf(Order(job, rank)));
  }
  cluster_.ProgressAll(job, 5);
  cluster_.EndAll(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

TEST_F(ProgramJobsTest, ProcessesAreAskedForTheirCollectiveCalls) {
  const std::string job = Running(ProgramJob());
  ASSERT_TRUE(cluster_.Progress(Order(job, 0), 1).ok());
  EXPECT_FALSE(cluster_.progress_reply.collectives_wanted());
  auto all = cluster_.ListCollectives(job);
  ASSERT_TRUE(cluster_.Progress(Order(job, 1), 1).ok());
  EXPECT_TRUE(cluster_.progress_reply.collectives_wanted());
  EXPECT_TRUE(cluster_.TellCollectives(Order(job, 0), {"a", "b"}).ok());
  EXPECT_FALSE(all.came());
  EXPECT_TRUE(cluster_.TellCollectives(Order(job, 1), {"a"}).ok());
  ASSERT_TRUE(all.status().ok()) << all.status();
  EXPECT_EQ(all.get()->slots(0).calls_size(), 2);
}

TEST_F(ProgramJobsTest, AFailureStartsAllAgainAndIsCounted) {
  v1::JobSpec spec = ProgramJob();
  spec.mutable_model()->mutable_program()->set_max_restarts(2);
  const std::string job = Running(spec);
  for (uint64_t generation = 2; generation <= 3; ++generation) {
    Crash(job, 1);
    EXPECT_EQ(cluster_.Status(job).generation(), generation);
    EXPECT_EQ(cluster_.State(job), v1::RUNNING);
    EXPECT_EQ(Order(job, 0).generation(), generation);
  }
  Crash(job, 0);
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(
      cluster_.Status(job).message(),
      AllOf(HasSubstr("slot 0 on worker w"), HasSubstr("the program ended with status 3"),
            HasSubstr("went back 2 times in a row"), HasSubstr("(model.program.max_restarts)")));
}

TEST_F(ProgramJobsTest, WhatDiesTheSameWayBeforeItsFirstStepIsStartedTwice) {
  const std::string job = Running(ProgramJob());
  Crash(job, 1, "the program ended with status 1; the last that it printed:\nat 12:01");
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_EQ(cluster_.Status(job).traceback(), "") << "the job has not failed";
  Crash(job, 0,
        "the program ended with status 1; the last that it printed:\nhello\n"
        "Traceback (most recent call last)\n  no module");
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_EQ(cluster_.Status(job).generation(), 2u);
  EXPECT_THAT(cluster_.Status(job).message(),
              AllOf(HasSubstr("ended in the same way twice before its first step"),
                    HasSubstr("slot 0 on worker w"), HasSubstr("max_restarts")));
  EXPECT_EQ(cluster_.Status(job).traceback(), "Traceback (most recent call last)\n  no module");
  // The text that it printed is part of the stored record.
  cluster_.RestartCoordinator();
  EXPECT_THAT(cluster_.Status(job).traceback(), HasSubstr("no module"));
}

TEST_F(ProgramJobsTest, WhatDiesInAnotherWayOrAfterAStepIsStartedAgain) {
  const std::string other = Running(ProgramJob());
  for (const char* how : {"ended with status 1", "was killed by signal 9", "ended with status 1"}) {
    Crash(other, 0, absl::StrCat("the program ", how));
    EXPECT_EQ(cluster_.State(other), v1::RUNNING) << how;
  }
  Cancel(other);
  const std::string later = Running(ProgramJob());
  ASSERT_TRUE(cluster_.Progress(Order(later, 1), 1).ok());
  for (int i = 0; i < 2; ++i) Crash(later, 0);
  EXPECT_EQ(cluster_.State(later), v1::RUNNING);
  Cancel(later);

  v1::JobSpec elastic = ProgramJob();
  elastic.mutable_model()->mutable_program()->set_elastic(true);
  const std::string alone = Running(elastic);
  for (const uint32_t slot : {0, 1}) Crash(alone, slot);
  EXPECT_NE(cluster_.State(alone), v1::FAILED) << "each has died once";
  Crash(alone, 1);
  EXPECT_EQ(cluster_.State(alone), v1::FAILED);
}

TEST_F(ProgramJobsTest, ATracebackIsTheEndOfWhatWasPrinted) {
  v1::JobSpec spec = ProgramJob();
  spec.mutable_model()->mutable_program()->set_max_restarts(0);
  const std::string silent = Running(spec);
  Crash(silent, 0, "the program ended with status 3, and printed nothing");
  EXPECT_EQ(cluster_.State(silent), v1::FAILED);
  EXPECT_EQ(cluster_.Status(silent).traceback(), "");
  const std::string long_one = Running(spec);
  // A character lies across the limit.
  Crash(long_one, 0,
        absl::StrCat("the program ended with status 3; the last that it printed:\nä",
                     std::string(4095, 'x')));
  EXPECT_EQ(cluster_.Status(long_one).traceback(), std::string(4095, 'x'));
}

TEST_F(ProgramJobsTest, ProgressForgivesRestarts) {
  v1::JobSpec spec = ProgramJob();
  spec.mutable_model()->mutable_program()->set_max_restarts(1);
  const std::string job = Running(spec);
  for (uint64_t step = 1; step <= 4; ++step) {
    cluster_.ProgressAll(job, step);
    Crash(job, 1);
    EXPECT_EQ(cluster_.State(job), v1::RUNNING) << step;
  }
  Crash(job, 1);
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
}

TEST_F(ProgramJobsTest, ACheckpointWaitsForEveryPart) {
  const std::string job = Running(ProgramJob());
  auto first = cluster_.CommitPart(Order(job, 0), 5, {"a"});
  EXPECT_FALSE(first.came());
  auto other_step = cluster_.CommitPart(Order(job, 1), 6, {"b"});
  EXPECT_EQ(other_step.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other_step.status().message()), HasSubstr("step 6"));
  auto same_name = cluster_.CommitPart(Order(job, 1), 5, {"b", "a"});
  EXPECT_EQ(same_name.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(same_name.status().message()), HasSubstr("slots 0 and 1 both wrote"));
  EXPECT_FALSE(first.came());
  auto second = cluster_.CommitPart(Order(job, 1), 5, {"b"});
  EXPECT_TRUE(first.status().ok()) << first.status();
  EXPECT_TRUE(second.status().ok()) << second.status();
  ASSERT_EQ(cluster_.archive.completed_requests.size(), 1u);
  EXPECT_EQ(cluster_.archive.completed_requests[0].files_size(), 2);
  // An answer that was lost.
  auto again = cluster_.CommitPart(Order(job, 0), 5, {"a"});
  EXPECT_TRUE(again.status().ok()) << again.status();
  EXPECT_EQ(cluster_.archive.completed_requests.size(), 1u);

  // The next generation starts there.
  Crash(job, 0);
  EXPECT_EQ(Order(job, 1).start_clock(), 5u);
  EXPECT_EQ(Order(job, 1).restore_uri(), "/checkpoints/" + job + "/5");
}

TEST_F(ProgramJobsTest, APartWaitsForNobodyWhoHasEndedAndIsForgottenWithItsTask) {
  const std::string job = Running(ProgramJob());
  auto lost = cluster_.CommitPart(Order(job, 0), 5, {"a"});
  Crash(job, 1);
  EXPECT_EQ(lost.status().code(), absl::StatusCode::kAborted);
  auto half = cluster_.CommitPart(Order(job, 1), 5, {"b"});
  EXPECT_FALSE(half.came()) << "the part of the task before does not count";
  cluster_.End(Order(job, 0));
  EXPECT_TRUE(half.status().ok()) << half.status();
}

TEST_F(ProgramJobsTest, PartsThatWaitTooLongAreGivenUpAndNobodyIsEnded) {
  const absl::Duration limit = CoordinatorOptions().stall_timeout;
  const std::string job = Running(ProgramJob());
  auto waits = cluster_.CommitPart(Order(job, 0), 5, {"a"});
  cluster_.Pass(limit - absl::Minutes(1));
  // Whoever writes in the background may go on.
  ASSERT_TRUE(cluster_.Progress(Order(job, 1), 6).ok());
  EXPECT_FALSE(waits.came());
  cluster_.Pass(absl::Minutes(1));
  EXPECT_EQ(waits.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(waits.status().message()),
              AllOf(HasSubstr("step 5"), HasSubstr("lacks the part of slot 1")));
  EXPECT_EQ(cluster_.Status(job).generation(), 1u);
  auto late = cluster_.CommitPart(Order(job, 1), 5, {"b"});
  EXPECT_EQ(late.status().code(), absl::StatusCode::kFailedPrecondition);
  auto first = cluster_.CommitPart(Order(job, 1), 10, {"b"});
  cluster_.Pass(limit - absl::Minutes(1));
  auto second = cluster_.CommitPart(Order(job, 0), 10, {"a"});
  EXPECT_TRUE(first.status().ok()) << first.status();
  EXPECT_TRUE(second.status().ok()) << second.status();
}

TEST_F(ProgramJobsTest, WhoReportsNothingForTooLongIsNamed) {
  v1::JobSpec spec = ProgramJob();
  spec.set_workers(3);
  spec.mutable_model()->mutable_program()->set_report_within_seconds(60);
  const std::string job = Running(spec);
  // Slot 2 leaves reports to the others.
  for (uint64_t step = 1; step <= 3; ++step) {
    ASSERT_TRUE(cluster_.Progress(Order(job, 0), step).ok());
    ASSERT_TRUE(cluster_.Progress(Order(job, 1), step).ok());
    cluster_.Pass(absl::Seconds(40));
  }
  EXPECT_EQ(cluster_.Status(job).generation(), 1u);
  ASSERT_TRUE(cluster_.Progress(Order(job, 0), 4).ok());
  cluster_.Pass(absl::Seconds(25));
  EXPECT_EQ(cluster_.Status(job).generation(), 2u);
  EXPECT_TRUE(cluster_.HasEvent(job, "is stuck at step 3")) << cluster_.Status(job).message();
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("slot 1 on worker"));
}

TEST_F(ProgramJobsTest, WhereNobodyReportsAllAreWatched) {
  v1::JobSpec spec = ProgramJob();
  spec.mutable_model()->mutable_program()->set_report_within_seconds(60);
  const std::string job = Running(spec);
  cluster_.Pass(absl::Seconds(55));
  EXPECT_EQ(cluster_.Status(job).generation(), 1u);
  cluster_.Pass(absl::Seconds(10));
  EXPECT_EQ(cluster_.Status(job).generation(), 2u);
  EXPECT_TRUE(cluster_.HasEvent(job, "nor has that of slot 1"));
}

TEST_F(ProgramJobsTest, AnElasticProgramLosesOneProcess) {
  v1::JobSpec spec = ProgramJob();
  spec.mutable_model()->mutable_program()->set_elastic(true);
  const std::string job = Running(spec);
  cluster_.ProgressAll(job, 3);
  cluster_.End(Order(job, 1), static_cast<int>(absl::StatusCode::kAborted), "it crashed");
  cluster_.Pass(absl::Minutes(1));
  EXPECT_EQ(cluster_.Status(job).generation(), 1u);
  EXPECT_EQ(Order(job, 0).incarnation(), 1u);
  EXPECT_EQ(Order(job, 1).incarnation(), 2u);
  auto met = cluster_.Rendezvous(Order(job, 1));
  EXPECT_TRUE(met.status().ok()) << "nobody is waited for";
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  // A process that is behind the others is not stuck.
  cluster_.Pass(CoordinatorOptions().stall_timeout * 2);
  EXPECT_EQ(Order(job, 1).incarnation(), 2u);
}

TEST_F(ProgramJobsTest, WhatAnElasticProcessGoesOnFromIsKept) {
  v1::JobSpec spec = ProgramJob();
  spec.mutable_model()->mutable_program()->set_elastic(true);
  spec.mutable_checkpoint()->set_keep(1);
  const std::string job = Running(spec);
  const auto commit = [&](uint64_t step) {
    auto first = cluster_.CommitPart(Order(job, 0), step, {"a"});
    auto second = cluster_.CommitPart(Order(job, 1), step, {"b"});
    EXPECT_TRUE(first.status().ok() && second.status().ok()) << second.status();
  };
  const auto replace = [&](uint64_t step) {
    cluster_.End(Order(job, 1), static_cast<int>(absl::StatusCode::kAborted), "it crashed");
    cluster_.Pass(absl::Minutes(1));
    auto met = cluster_.Rendezvous(Order(job, 1));
    ASSERT_TRUE(met.status().ok()) << met.status();
    EXPECT_EQ(met.get()->checkpoint_clock(), step);
  };
  const auto folder = [&](uint64_t step) { return absl::StrCat("/checkpoints/", job, "/", step); };
  commit(5);
  replace(5);
  commit(6);
  commit(7);
  EXPECT_TRUE(cluster_.archive.folders.contains(folder(5))) << "slot 1 may read it";
  EXPECT_FALSE(cluster_.archive.folders.contains(folder(6)));
  replace(7);
  commit(8);
  EXPECT_FALSE(cluster_.archive.folders.contains(folder(5)));
  EXPECT_TRUE(cluster_.archive.folders.contains(folder(7)));
}

TEST_F(ProgramJobsTest, WhatAJobWentBackToIsDroppedAtItsEnd) {
  v1::JobSpec spec = ProgramJob();
  spec.mutable_checkpoint()->set_keep(2);
  const std::string job = Running(spec);
  const auto commit = [&](const std::string& id, uint64_t step) {
    auto whole =
        cluster_.CommitPart(Order(id, 0), step, {"a"}, "", v1::CommitCheckpointRequest::WHOLE);
    EXPECT_TRUE(whole.status().ok()) << whole.status();
  };
  const auto exists = [&](uint64_t step) {
    return cluster_.archive.folders.contains(absl::StrCat("/checkpoints/", job, "/", step));
  };
  commit(job, 5);
  Crash(job, 1);
  EXPECT_EQ(Order(job, 0).start_clock(), 5u);
  for (const uint64_t step : {6, 7, 8}) commit(job, step);
  EXPECT_TRUE(exists(5)) << "its generation may read it";
  // Another job begins with one that is not among the last any more when this one ends.
  v1::JobSpec later = spec;
  later.set_resume_from(absl::StrCat(job, "@7"));
  const std::string next = *cluster_.Submit(later);
  commit(job, 9);
  for (const uint32_t slot : {0, 1}) cluster_.End(Order(job, slot));
  cluster_.Pass(absl::Seconds(1));
  EXPECT_FALSE(exists(5));
  EXPECT_TRUE(exists(7) && exists(8) && exists(9));
  Cancel(next);
  EXPECT_FALSE(exists(7));
  EXPECT_TRUE(exists(8) && exists(9));
}

TEST_F(ProgramJobsTest, WithDurableServersALostOneIsWaitedForInPlace) {
  cluster_.AddServer("s0");
  v1::JobSpec spec = ProgramJob();
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  const std::string job = Running(spec);
  EXPECT_EQ(Order(job, 0).shard_map().partitions_size(), 8);
  cluster_.ProgressAll(job, 3);
  cluster_.RestartDaemon("s0");
  cluster_.Pass(absl::Seconds(1));
  EXPECT_EQ(cluster_.Status(job).generation(), 1u);
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  // The processes go on without meeting again.
  cluster_.ProgressAll(job, 4);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_TRUE(cluster_.HasEvent(job, "recovered"));
}

TEST_F(ProgramJobsTest, ACheckpointWithoutItsServersFilesIsRefused) {
  cluster_.AddServer("s0");
  v1::JobSpec spec = ProgramJob();
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_update()->set_partitions(2);
  const std::string job = Running(spec);
  const auto refused = [](const absl::Status& status, const char* text) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  auto whole = cluster_.CommitPart(Order(job, 1), 5, {"a"}, "", v1::CommitCheckpointRequest::WHOLE);
  refused(whole.status(), "has files of 0 of 2 partitions of the job's servers and no schema");
  auto other = cluster_.CommitPart(Order(job, 1), 5, {"a"});
  EXPECT_FALSE(other.came()) << "slot 0 tells of the servers' files";
  auto first = cluster_.CommitPart(Order(job, 0), 5, {"b", ServedFileName(1)}, "schema");
  refused(first.status(), "has files of 1 of 2 partitions of the job's servers, so");
  refused(other.status(), "slot 0 commits what its ParameterServer's servers held");
  EXPECT_TRUE(cluster_.archive.completed_requests.empty());

  first = cluster_.CommitPart(Order(job, 0), 6, {ServedFileName(0), ServedFileName(1)}, "schema");
  other = cluster_.CommitPart(Order(job, 1), 6, {"a"});
  EXPECT_TRUE(first.status().ok() && other.status().ok()) << first.status() << other.status();
  ASSERT_EQ(cluster_.archive.completed_requests.size(), 1u);
  EXPECT_EQ(cluster_.archive.completed_requests[0].schema(), "schema");
  // Nobody is left who could tell of them.
  cluster_.End(Order(job, 0));
  other = cluster_.CommitPart(Order(job, 1), 7, {"a"});
  refused(other.status(), "has files of 0 of 2 partitions");
}

TEST_F(ProgramJobsTest, ServersAreToldWhichSlotsHaveEnded) {
  SimulatedCluster::Daemon& server = cluster_.AddServer("s0");
  v1::JobSpec spec = ProgramJob();
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  const std::string job = Running(spec);
  cluster_.Pass(absl::Seconds(1));
  EXPECT_TRUE(server.orders.ended_slots().empty());
  cluster_.End(Order(job, 1));
  cluster_.Pass(absl::Seconds(1));
  ASSERT_EQ(server.orders.ended_slots_size(), 1);
  const v1::EndedSlots& ended = server.orders.ended_slots(0);
  EXPECT_EQ(ended.job_id(), job);
  EXPECT_EQ(ended.generation(), cluster_.Status(job).generation());
  EXPECT_THAT(ended.slots(), ElementsAre(1));
  cluster_.End(Order(job, 0));
  cluster_.Pass(absl::Seconds(1));
  EXPECT_TRUE(server.orders.ended_slots().empty());
}

TEST_F(ProgramJobsTest, OneRankAloneMakesAStepsWholeCheckpoint) {
  constexpr auto kWhole = v1::CommitCheckpointRequest::WHOLE;
  const std::string job = Running(ProgramJob());
  const auto refused = [](const absl::Status& status, const char* text) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  auto first = cluster_.CommitPart(Order(job, 1), 5, {"a"}, "", kWhole);
  auto other = cluster_.CommitPart(Order(job, 0), 5, {"b"}, "", kWhole);
  EXPECT_TRUE(first.status().ok()) << first.status();
  refused(other.status(), "step 5 has a checkpoint already, which slot 1 made whole");
  refused(cluster_.CommitPart(Order(job, 0), 5, {"b"}).status(), "which slot 1 made whole");
  // What is repeated is in.
  EXPECT_TRUE(cluster_.CommitPart(Order(job, 1), 5, {"a"}, "", kWhole).status().ok());

  first = cluster_.CommitPart(Order(job, 0), 6, {"a"});
  other = cluster_.CommitPart(Order(job, 1), 6, {"b"});
  EXPECT_TRUE(first.status().ok() && other.status().ok()) << first.status() << other.status();
  EXPECT_TRUE(cluster_.CommitPart(Order(job, 1), 6, {"b"}).status().ok());
  refused(cluster_.CommitPart(Order(job, 1), 6, {"b"}, "", kWhole).status(),
          "step 6 has a checkpoint already, of all slots together");
}

TEST_F(ProgramJobsTest, OtherwiseALostServerStartsAllAgain) {
  cluster_.AddServer("s0");
  v1::JobSpec spec = ProgramJob();
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  const std::string job = Running(spec);
  cluster_.ProgressAll(job, 3);
  cluster_.RestartDaemon("s0");
  cluster_.Pass(absl::Minutes(1));
  EXPECT_EQ(cluster_.Status(job).generation(), 2u);
  cluster_.MeetAll(job);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
}

TEST_F(ProgramJobsTest, NeedsTheTokenAndWorkersThatAllowIt) {
  SimulatedCluster without;
  without.AddWorker("w0", 2);
  const auto refused = without.Submit(ProgramJob());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("--program-token-file"));

  SimulatedCluster guarded{WithToken()};
  SimulatedCluster::Daemon& worker = guarded.AddWorker("w0", 2);
  worker.allows_programs = false;
  guarded.RestartDaemon("w0");
  const auto nowhere = guarded.Submit(ProgramJob());
  EXPECT_EQ(nowhere.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(nowhere.status().message()), HasSubstr("--allow-programs"));
}

TEST_F(ProgramJobsTest, ValuesOfTheEnvironmentAreInOrdersAlone) {
  v1::JobSpec spec = ProgramJob();
  auto& environment = *spec.mutable_model()->mutable_program()->mutable_environment();
  environment["API_KEY"] = "very-secret";
  const std::string job = Running(spec);
  EXPECT_EQ(Order(job, 0).spec().model().program().environment().at("API_KEY"), "very-secret");
  std::string all = cluster_.Status(job).DebugString();
  EXPECT_THAT(all, HasSubstr("API_KEY"));
  absl::StrAppend(&all, cluster_.coordinator().jobs().List({})->DebugString(),
                  cluster_.coordinator().jobs().Events(job)->DebugString());
  Answer<JobRequests::StatusUpdate> watched;
  cluster_.coordinator().jobs().NextStatus(job, 0, watched.call());
  absl::StrAppend(&all, watched.get()->status.DebugString());
  EXPECT_EQ(all.find("very-secret"), std::string::npos) << all;

  // What was shown stands for the values of the job that is gone on from, and for nothing else.
  cluster_.CommitPart(Order(job, 0), 5, {"a"}, "", v1::CommitCheckpointRequest::WHOLE);
  v1::JobSpec shown = cluster_.Status(job).spec();
  cluster_.End(Order(job, 0));
  cluster_.End(Order(job, 1));
  const absl::Status copied = cluster_.Submit(shown).status();
  EXPECT_THAT(std::string(copied.message()), HasSubstr("model.program.environment.API_KEY"));
  shown.set_resume_from(job);
  const std::string next = Running(shown);
  EXPECT_EQ(Order(next, 0).spec().model().program().environment().at("API_KEY"), "very-secret");
}

TEST_F(ProgramJobsTest, StartsOnlyFromAProgramsCheckpoint) {
  const std::string program = Running(ProgramJob());
  auto first = cluster_.CommitPart(Order(program, 0), 5, {"a"});
  auto second = cluster_.CommitPart(Order(program, 1), 5, {"b"});
  ASSERT_TRUE(second.status().ok()) << second.status();
  v1::JobSpec next = ProgramJob();
  next.set_resume_from(program);
  EXPECT_TRUE(cluster_.Submit(next).ok());
  v1::JobSpec other = AllReduceJob();
  other.set_resume_from(program);
  EXPECT_EQ(cluster_.Submit(other).status().code(), absl::StatusCode::kInvalidArgument);
  other.clear_resume_from();
  other.set_initial_weights(program);
  EXPECT_THAT(std::string(cluster_.Submit(other).status().message()), HasSubstr("runs a program"));
}

}  // namespace
}  // namespace muster
