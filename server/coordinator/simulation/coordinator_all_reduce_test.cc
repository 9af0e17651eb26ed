// Jobs that train by all-reduce: how their tasks meet, and what they are told.
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/lifecycle/round_failures.h"
#include "server/coordinator/simulation/all_reduce_test_fixture.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(AllReduceTest, NeedsNoServersAndTellsAllTheSame) {
  AddWorkers(2);
  const std::string job = *cluster_.Submit(AllReduceJob());
  EXPECT_EQ(cluster_.State(job), v1::PLACING);
  EXPECT_EQ(cluster_.Status(job).partitions_size(), 0);
  EXPECT_EQ(cluster_.Status(job).predicted_server_bytes(), 0);
  auto first = cluster_.Rendezvous(Order(job, 1));
  EXPECT_FALSE(first.came());
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("waits for slot 0"));
  auto second = cluster_.Rendezvous(Order(job, 0));
  ASSERT_TRUE(first.status().ok()) << first.status();
  ASSERT_TRUE(second.status().ok());
  const v1::RendezvousReply& reply = *first.get();
  EXPECT_EQ(reply.SerializeAsString(), second.get()->SerializeAsString());
  EXPECT_EQ(reply.round(), 1);
  EXPECT_FALSE(reply.has_source_slot()) << "nobody has a replica yet";
  EXPECT_EQ(reply.secret().size(), 32);
  ASSERT_EQ(reply.peers_size(), 2);
  for (uint32_t slot = 0; slot < 2; ++slot) {
    EXPECT_EQ(reply.peers(slot).slot(), slot);
    EXPECT_EQ(reply.peers(slot).endpoint(), SimulatedCluster::EndpointOf(Order(job, slot)));
  }
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_TRUE(cluster_.HasEvent(job, "all 2 slots met in generation 1"));
  EXPECT_TRUE(cluster_.HasEvent(job, "10 steps, all-reduce"));
  EXPECT_THAT(cluster_.Status(job).recovery(), HasSubstr("another worker's replica"));
  cluster_.Finish(job);
  const v1::JobStatus status = cluster_.Status(job);
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message();
  ASSERT_EQ(status.tasks_size(), 2);
  EXPECT_EQ(status.tasks(1).steps(), 1) << "sums outlive the job";
  cluster_.RestartCoordinator();
  EXPECT_EQ(cluster_.Status(job).tasks(1).steps(), 1);
}

TEST_F(AllReduceTest, ALostTaskIsReplacedAndGetsTheOthersReplica) {
  AddWorkers(3);
  const std::string job = Running(Job(3));
  const v1::TaskOrder lost = Order(job, 0);
  // Slot 1 got one step further before the death was noticed.
  EXPECT_TRUE(cluster_.Progress(Order(job, 1), 4).ok());
  cluster_.Die(Order(job, 0));
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  EXPECT_EQ(Order(job, 0).generation(), 1);
  EXPECT_EQ(Order(job, 0).incarnation(), 2);
  EXPECT_EQ(Order(job, 1).incarnation(), 1) << "the others go on";

  auto survivor = cluster_.Rendezvous(Order(job, 2));
  auto newcomer = cluster_.Rendezvous(Order(job, 0));
  EXPECT_FALSE(survivor.came());
  EXPECT_EQ(cluster_.Rendezvous(lost).status().code(), absl::StatusCode::kAborted);
  auto ahead = cluster_.Rendezvous(Order(job, 1));
  ASSERT_TRUE(ahead.status().ok());
  EXPECT_EQ(ahead.get()->round(), 2);
  EXPECT_EQ(ahead.get()->source_slot(), 1);
  EXPECT_EQ(ahead.get()->SerializeAsString(), survivor.get()->SerializeAsString());
  EXPECT_EQ(ahead.get()->SerializeAsString(), newcomer.get()->SerializeAsString());
  EXPECT_EQ(cluster_.rank(Order(job, 0)).clock, 4);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_TRUE(cluster_.HasEvent(job, "round 2, from slot 1's replica at clock 4"));
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(AllReduceTest, ARepeatedCallGetsTheSameAnswerWhileTheRoundLasts) {
  AddWorkers(2);
  const std::string job = *cluster_.Submit(AllReduceJob());
  cluster_.answers_are_lost = true;
  cluster_.MeetAll(job);
  cluster_.answers_are_lost = false;
  auto first = cluster_.Rendezvous(Order(job, 0));
  auto second = cluster_.Rendezvous(Order(job, 1));
  ASSERT_TRUE(first.status().ok());
  EXPECT_EQ(first.get()->round(), 1);
  EXPECT_EQ(first.get()->SerializeAsString(), second.get()->SerializeAsString());
  // The round is over as soon as one of its tasks comes for the next.
  cluster_.rank(Order(job, 0)).round = 0;
  auto left = cluster_.Rendezvous(Order(job, 1));
  auto late = cluster_.Rendezvous(Order(job, 0));
  ASSERT_TRUE(late.status().ok());
  EXPECT_EQ(late.get()->round(), 2);
  EXPECT_NE(late.get()->secret(), first.get()->secret());
  EXPECT_EQ(left.get()->SerializeAsString(), late.get()->SerializeAsString());
}

TEST_F(AllReduceTest, ARestartNeverReusesARound) {
  AddWorkers(2);
  const std::string job = *cluster_.Submit(AllReduceJob());
  cluster_.answers_are_lost = true;
  cluster_.MeetAll(job);
  cluster_.answers_are_lost = false;
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  auto first = cluster_.Rendezvous(Order(job, 0));
  EXPECT_FALSE(first.came()) << "the answer is gone, the round with it";
  auto second = cluster_.Rendezvous(Order(job, 1));
  ASSERT_TRUE(second.status().ok());
  EXPECT_EQ(second.get()->round(), 2);
  EXPECT_EQ(first.get()->round(), 2);
}

TEST_F(AllReduceTest, ARoundThatCannotBeStoredIsNotToldOf) {
  AddWorkers(2);
  const std::string job = *cluster_.Submit(AllReduceJob());
  auto first = cluster_.Rendezvous(Order(job, 0));
  cluster_.store.failing = true;
  auto second = cluster_.Rendezvous(Order(job, 1));
  EXPECT_EQ(first.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  cluster_.store.failing = false;
  cluster_.MeetAll(job);
  EXPECT_EQ(cluster_.rank(Order(job, 1)).round, 1);
}

TEST_F(AllReduceTest, WhoDoesNotWaitAnyMoreHasNotCome) {
  AddWorkers(2);
  const std::string job = *cluster_.Submit(AllReduceJob());
  const v1::TaskOrder order = Order(job, 0);
  v1::RendezvousRequest request;
  request.mutable_task()->set_job_id(job);
  request.mutable_task()->set_generation(1);
  request.mutable_task()->set_incarnation(1);
  request.set_total_steps(10);
  request.set_data_fingerprint(7);
  request.set_training_examples(80);
  request.set_held_out_examples(20);
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  Answer<v1::RendezvousReply> broken;
  Call<v1::RendezvousReply> call = broken.call();
  call.cancelled = gone;
  cluster_.coordinator().tasks().Rendezvous(request, std::move(call));
  gone->store(true);
  EXPECT_FALSE(cluster_.Rendezvous(Order(job, 1)).came());
  EXPECT_EQ(broken.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(cluster_.State(job), v1::PLACING);
}

TEST_F(AllReduceTest, ReplicasTooFarApartFailTheJob) {
  AddWorkers(3);
  const std::string job = Running(Job(3));
  cluster_.rank(Order(job, 1)).clock = 5;
  auto a = cluster_.Rendezvous(Order(job, 0));
  auto b = cluster_.Rendezvous(Order(job, 1));
  auto c = cluster_.Rendezvous(Order(job, 2));
  for (auto* answer : {&a, &b, &c}) {
    EXPECT_EQ(answer->status().code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("slot 1 has made 5 steps, slot 0 3"));
}

TEST_F(AllReduceTest, OtherDataFailsTheJobInEveryRound) {
  AddWorkers(2);
  const std::string job = Running(AllReduceJob());
  auto waiting = cluster_.Rendezvous(Order(job, 0));
  cluster_.Die(Order(job, 1));
  EXPECT_EQ(cluster_.Rendezvous(Order(job, 1), 10, 99).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(waiting.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
}

TEST_F(AllReduceTest, ARoundThatNeverWasIsRefused) {
  AddWorkers(2);
  const std::string job = Running(AllReduceJob());
  cluster_.rank(Order(job, 0)).round = 7;
  EXPECT_EQ(cluster_.Rendezvous(Order(job, 0)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AllReduceTest, WithAllReplicasLostItGoesBackToItsCheckpoint) {
  AddWorkers(2);
  const std::string job = Running(AllReduceJob());
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 0), 3).status().ok());
  cluster_.ProgressAll(job, 6);
  cluster_.Die(Order(job, 0));
  EXPECT_EQ(Order(job, 0).generation(), 1);
  cluster_.Die(Order(job, 1));
  const v1::TaskOrder order = Order(job, 1);
  EXPECT_EQ(order.generation(), 2);
  EXPECT_EQ(order.start_clock(), 3);
  EXPECT_EQ(order.restore_uri(), "/checkpoints/" + job + "/3");
  EXPECT_EQ(cluster_.Status(job).progress().step(), 3);
  cluster_.MeetAll(job);
  EXPECT_EQ(cluster_.rank(Order(job, 0)).round, 1) << "rounds count within a generation";
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(AllReduceTest, WhenNobodyBringsAReplicaItGoesBackToo) {
  AddWorkers(2);
  const std::string job = Running(AllReduceJob());
  // The one with a replica dies after it was named the source, before it handed the replica on.
  cluster_.Die(Order(job, 0));
  cluster_.rank(Order(job, 1)).clock.reset();
  auto survivor = cluster_.Rendezvous(Order(job, 1));
  auto newcomer = cluster_.Rendezvous(Order(job, 0));
  EXPECT_EQ(survivor.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(newcomer.status().code(), absl::StatusCode::kAborted);
  cluster_.BeatAll();
  EXPECT_EQ(Order(job, 0).generation(), 2);
  EXPECT_TRUE(cluster_.HasEvent(job, "no worker has a replica left"));
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(AllReduceTest, AFirstRoundThatBrokeJustBeginsAgain) {
  AddWorkers(2);
  const std::string job = *cluster_.Submit(AllReduceJob());
  cluster_.MeetAll(job);
  for (uint32_t slot = 0; slot < 2; ++slot) cluster_.rank(Order(job, slot)).clock.reset();
  cluster_.Rendezvous(Order(job, 0));
  auto reply = cluster_.Rendezvous(Order(job, 1));
  ASSERT_TRUE(reply.status().ok());
  EXPECT_EQ(reply.get()->round(), 2);
  EXPECT_FALSE(reply.get()->has_source_slot());
}

TEST_F(AllReduceTest, MeetingsWithoutAStepComeToAnEnd) {
  AddWorkers(2);
  const std::string job = Running(AllReduceJob());
  const std::string worker = Worker(job, 1);
  for (int meeting = 0; meeting < 20; ++meeting) {
    ASSERT_EQ(cluster_.State(job), v1::RUNNING) << meeting;
    MeetAfterPause(job);
  }
  cluster_.ProgressAll(job, 4);
  for (int meeting = 0; meeting < 20; ++meeting) MeetAfterPause(job);
  ASSERT_EQ(cluster_.State(job), v1::RUNNING) << "a step in between forgives";
  cluster_.rank(Order(job, 1)).failure = "slot 0 has left";
  MeetAfterPause(job);
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(),
              AllOf(HasSubstr("met 20 times without making the step after clock 4"),
                    HasSubstr("slot 1 on worker " + worker + ": slot 0 has left"),
                    HasSubstr("--collectives")));
}

// Their network is cut, while both reach the coordinator.
TEST_F(AllReduceTest, TasksThatCannotReachOneAnotherAreNamed) {
  AddWorkers(2);
  const std::string job = Running(AllReduceJob());
  cluster_.rank(Order(job, 0)).failure = "slot 1 (pid 9): connect to 10.7.0.2:7001: no answer";
  cluster_.rank(Order(job, 1)).failure = "slot 0 (pid 8): it has not called 10.7.0.2:7001";
  cluster_.MeetAll(job);
  const std::string ended =
      absl::StrCat("slot 0 on worker ", Worker(job, 0),
                   ": slot 1 (pid 9): connect to 10.7.0.2:7001: no answer; slot 1 on worker ",
                   Worker(job, 1), ": slot 0 (pid 8): it has not called 10.7.0.2:7001");
  EXPECT_TRUE(cluster_.HasEvent(
      job, absl::StrCat("all 2 slots met again in round 2, from slot 0's replica at clock 3; the "
                        "last one ended: ",
                        ended)));
  EXPECT_EQ(cluster_.Status(job).waiting_for(),
            absl::StrCat("progress from clock 3; the last round ended: ", ended));
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr(ended));
  cluster_.ProgressAll(job, 4);
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "") << "it goes on";
  // A worker that comes back, say: nothing failed.
  cluster_.MeetAll(job);
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "");
}

TEST_F(AllReduceTest, RoundsWithoutAStepBeginLaterAndLater) {
  AddWorkers(2);
  const std::string job = Running(AllReduceJob());
  const auto pause = [&] {
    auto first = cluster_.Rendezvous(Order(job, 0));
    EXPECT_FALSE(first.came());
    cluster_.rank(Order(job, 1)).failure = "cut";
    auto last = cluster_.Rendezvous(Order(job, 1));
    absl::Duration waited;
    for (; !last.came() && waited < absl::Minutes(1); waited += absl::Milliseconds(50)) {
      EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("the last round ended: slot 1"));
      cluster_.Pass(absl::Milliseconds(50));
    }
    EXPECT_TRUE(first.came());
    return absl::ToInt64Milliseconds(waited);
  };
  const auto pauses = [&](int meetings) {
    std::vector<int64_t> all;
    while (meetings-- > 0) all.push_back(pause());
    return all;
  };
  EXPECT_THAT(pauses(12),
              ElementsAre(0, 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000));
  cluster_.ProgressAll(job, 4);
  EXPECT_THAT(pauses(4), ElementsAre(0, 0, 100, 200));
}

TEST_F(AllReduceTest, APauseBeginsAnewWhenATaskIsLostInIt) {
  AddWorkers(3);
  const std::string job = Running(AllReduceJob());
  for (int meeting = 0; meeting < 6; ++meeting) MeetAfterPause(job);
  auto parked = cluster_.Rendezvous(Order(job, 0));
  cluster_.Rendezvous(Order(job, 1));
  cluster_.Pass(absl::Milliseconds(1550));
  EXPECT_FALSE(parked.came());
  cluster_.Die(Order(job, 1));
  cluster_.Pass(absl::Milliseconds(100));
  EXPECT_FALSE(parked.came()) << "one is missing";
  cluster_.Rendezvous(AwaitOrder(job, 1));
  EXPECT_FALSE(parked.came());
  cluster_.Pass(absl::Milliseconds(1600));
  EXPECT_TRUE(parked.status().ok()) << parked.status();
}

// Of many that failed, those with a reason of their own come first, and the text stays short.
TEST(DescribeFailuresTest, TheFewestSayMost) {
  v1::JobRecord record;
  std::map<uint32_t, std::string> failures;
  for (uint32_t slot = 0; slot < 100; ++slot) {
    record.add_slots()->set_worker_id(absl::StrCat("w", slot));
    failures[slot] = "slot 3 has left";
  }
  failures[3] = "cannot reach slot 70";
  failures[70] = "slot 3 has not called";
  EXPECT_EQ(DescribeFailures(failures, record),
            "slot 3 on worker w3: cannot reach slot 70; slot 70 on worker w70: slot 3 has not "
            "called; slot 0 on worker w0, slot 1 on worker w1, slot 2 on worker w2, slot 4 on "
            "worker w4 and 94 more slots: slot 3 has left");
  for (uint32_t slot = 0; slot < 100; ++slot) failures[slot] = std::string(4000, 'a' + slot % 20);
  const std::string cut = DescribeFailures(failures, record);
  EXPECT_LT(cut.size(), 3000u);
  EXPECT_THAT(cut, AllOf(HasSubstr("…"), HasSubstr("; and other reasons of 80 more slots")));
  EXPECT_EQ(DescribeFailures({}, record), "");
}

TEST_F(AllReduceTest, CollectivesAreAskedForAndShown) {
  AddWorkers(2);
  const std::string job = Running(AllReduceJob());
  EXPECT_FALSE(cluster_.progress_reply.collectives_wanted());
  auto all = cluster_.ListCollectives(job);
  EXPECT_FALSE(all.came());
  cluster_.ProgressAll(job, 4);
  EXPECT_TRUE(cluster_.progress_reply.collectives_wanted());
  EXPECT_TRUE(cluster_.TellCollectives(Order(job, 0), {"bucket 0", "bucket 1"}).ok());
  EXPECT_FALSE(all.came());
  EXPECT_TRUE(cluster_.TellCollectives(Order(job, 1), {"bucket 0"}).ok());
  ASSERT_TRUE(all.status().ok());
  ASSERT_EQ(all.get()->slots_size(), 2);
  EXPECT_EQ(all.get()->slots(0).calls(1).label(), "bucket 1");
  cluster_.ProgressAll(job, 5);
  EXPECT_FALSE(cluster_.progress_reply.collectives_wanted());

  // Who does not answer shows what it told last.
  auto late = cluster_.ListCollectives(job);
  EXPECT_TRUE(cluster_.TellCollectives(Order(job, 0), {"bucket 7"}).ok());
  cluster_.Pass(absl::Milliseconds(1500));
  EXPECT_FALSE(late.came());
  cluster_.Pass(absl::Milliseconds(500));
  ASSERT_TRUE(late.status().ok());
  EXPECT_EQ(late.get()->slots(0).calls(0).label(), "bucket 7");
  EXPECT_EQ(late.get()->slots(1).calls(0).label(), "bucket 0");

  // What a task saw before its job failed stays, even if it tells afterwards.
  const v1::TaskOrder told = Order(job, 0), failed = Order(job, 1);
  EXPECT_TRUE(cluster_.TellCollectives(failed, {"mismatch"}).ok());
  cluster_.End(failed, static_cast<int>(absl::StatusCode::kFailedPrecondition), "mismatch");
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_TRUE(cluster_.TellCollectives(told, {"mismatch, too"}).ok());
  auto after = cluster_.ListCollectives(job);
  ASSERT_TRUE(after.status().ok()) << "answered at once";
  EXPECT_EQ(after.get()->slots(0).calls(0).label(), "mismatch, too");
  EXPECT_EQ(after.get()->slots(1).calls(0).label(), "mismatch");
  EXPECT_EQ(cluster_.ListCollectives("j0-none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(AllReduceTest, StatusSaysWhoSitsInWhichCall) {
  AddWorkers(3);
  const std::string job = Running(Job(3));
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "");
  for (uint32_t slot : {0, 2}) {
    EXPECT_TRUE(cluster_.TellLongCall(Order(job, slot), "bucket 3").ok());
  }
  EXPECT_EQ(cluster_.Status(job).waiting_for(),
            "slot 0, 2 in all_reduce \"bucket 3\", call 12 of group world; slot 1 in none");
  // The next reports of those whose call has ended have none.
  cluster_.ProgressAll(job, 4);
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "");
}

TEST_F(AllReduceTest, JobsOnServersHaveNoCollectives) {
  cluster_.AddServer("s0");
  AddWorkers(2);
  const std::string job = Running(SmallJob());
  auto none = cluster_.ListCollectives(job);
  ASSERT_TRUE(none.status().ok());
  EXPECT_EQ(none.get()->slots_size(), 0);
  cluster_.ProgressAll(job, 4);
  EXPECT_FALSE(cluster_.progress_reply.collectives_wanted());
}

TEST_F(AllReduceTest, WhatFitsNoWorkerIsRefusedWithTheSum) {
  cluster_.AddWorker("small", 2, 1 << 20);
  cluster_.AddWorker("large", 2, 100 << 20);
  v1::JobSpec spec = AllReduceJob();
  EXPECT_TRUE(cluster_.Submit(spec).ok());
  // Some 12.6 million parameters.
  spec.mutable_model()->mutable_mlp()->set_hidden(0, 3540);
  spec.mutable_model()->mutable_mlp()->add_hidden(3540);
  const absl::Status status = cluster_.Submit(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(ContainsRegex("parameters +48.0 MiB"), ContainsRegex("gradients +48.0 MiB"),
                    HasSubstr("together"), HasSubstr("worker large offers the most, 100.0 MiB"),
                    HasSubstr("it would fit with parallelism.tensor 2 and 4 workers")));
}

TEST_F(AllReduceTest, WhatFitsNoServerIsRefusedWithTheSum) {
  AddWorkers(2);
  cluster_.AddServer("s0", 10 << 20);
  cluster_.AddServer("s1", 10 << 20);
  v1::JobSpec spec = SmallJob();
  EXPECT_TRUE(cluster_.Submit(spec).ok());
  // Some 1.6 million parameters.
  spec.mutable_model()->mutable_mlp()->set_hidden(0, 1250);
  spec.mutable_model()->mutable_mlp()->add_hidden(1250);
  const absl::Status status = cluster_.Submit(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("server s0 has 10.0 MiB free"), ContainsRegex("parameters +6.0 MiB"),
                    ContainsRegex("sums of the open clock +6.0 MiB"),
                    ContainsRegex("together +24.1 MiB"), HasSubstr("ask for less")));
  // What is missing is no memory.
  spec.mutable_update()->set_partitions(3);
  spec.set_servers(3);
  EXPECT_THAT(std::string(cluster_.Submit(spec).status().message()),
              AllOf(HasSubstr("2 of 3 servers live"), Not(HasSubstr("together"))));
}

}  // namespace
}  // namespace muster
