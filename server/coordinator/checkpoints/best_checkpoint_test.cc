#include "server/coordinator/checkpoints/best_checkpoint.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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

// A job with checkpoints at these clocks, and evaluations with these values.
v1::JobRecord Record(const std::vector<uint64_t>& checkpoints,
                     const std::vector<std::pair<uint64_t, double>>& evaluations,
                     const std::string& metric = "accuracy") {
  v1::JobRecord record;
  record.set_job_id("j1");
  *record.mutable_spec() = SmallJob();
  for (const uint64_t clock : checkpoints) record.add_checkpoints()->set_clock(clock);
  for (const auto& [clock, value] : evaluations) {
    v1::EvaluationResult& evaluation = *record.add_evaluations();
    evaluation.set_clock(clock);
    evaluation.set_metric(metric);
    evaluation.set_value(value);
  }
  return record;
}

std::optional<uint64_t> Best(const v1::JobRecord& record) {
  const v1::EvaluationResult* best = BestEvaluation(record);
  return best == nullptr ? std::nullopt : std::optional<uint64_t>(best->clock());
}

TEST(BestEvaluationTest, IsTheBestWhoseCheckpointIsThere) {
  EXPECT_EQ(Best(Record({2, 4, 6, 8}, {{2, 0.5}, {4, 0.7}, {6, 0.6}})), 4);
  EXPECT_EQ(Best(Record({2, 4, 6, 8}, {{2, 5}, {4, 7}, {6, 6}}, "loss")), 2);
  EXPECT_EQ(Best(Record({2, 6}, {{2, 0.5}, {4, 0.7}, {6, 0.6}})), 6) << "4 was not kept";
  EXPECT_EQ(Best(Record({2, 4}, {{2, 0.5}, {4, 0.5}})), 2) << "an equal one is not better";
  EXPECT_EQ(Best(Record({2, 4}, {})), std::nullopt);
  EXPECT_EQ(Best(Record({}, {{2, 0.5}})), std::nullopt);
}

TEST(BestEvaluationTest, TakesNeitherWhatIsNoNumberNorWhatCannotBeRead) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  v1::JobRecord record = Record({2, 4, 6, 8}, {{2, none}, {4, 0.5}, {6, 0.7}, {8, 0.9}});
  record.mutable_evaluations(3)->set_no_value("one class");
  EXPECT_EQ(Best(record), 6);
  record.mutable_checkpoints(2)->set_damage("a file is missing");
  EXPECT_EQ(Best(record), 4);
  // A delta is as damaged as what it goes on from.
  record.mutable_checkpoints(1)->set_base_clock(2);
  EXPECT_EQ(Best(record), 4);
  record.mutable_checkpoints(0)->set_damage("a file is missing");
  EXPECT_EQ(Best(record), std::nullopt);
}

TEST(BestEvaluationTest, ThereIsNoneWhereNoneIsKept) {
  v1::JobRecord record = Record({2}, {{2, 0.5}});
  record.mutable_spec()->mutable_checkpoint()->set_keep_best(false);
  EXPECT_EQ(Best(record), std::nullopt);
  EXPECT_FALSE(IsWorthKeeping(record.evaluations(0), record, {}));
  record.mutable_spec()->mutable_checkpoint()->set_keep_best(true);
  EXPECT_EQ(Best(record), 2);
  record.mutable_spec()->mutable_stop()->set_evaluate_only(true);
  EXPECT_EQ(Best(record), std::nullopt);
  *record.mutable_spec() = ProgramJob();
  EXPECT_EQ(Best(record), std::nullopt);
  EXPECT_FALSE(IsWorthKeeping(record.evaluations(0), record, {}));
}

TEST(BestEvaluationTest, WorthKeepingIsWhatIsBetterThanAllThatAreKept) {
  const auto worth = [](const v1::JobRecord& record, std::optional<uint64_t> under_way = {}) {
    return IsWorthKeeping(*record.evaluations().rbegin(), record, under_way);
  };
  EXPECT_TRUE(worth(Record({}, {{2, 0.5}}))) << "the first";
  EXPECT_TRUE(worth(Record({2}, {{2, 0.5}, {4, 0.7}})));
  EXPECT_FALSE(worth(Record({2}, {{2, 0.5}, {4, 0.5}})));
  EXPECT_FALSE(worth(Record({2}, {{2, 0.5}, {4, 0.4}})));
  EXPECT_TRUE(worth(Record({2}, {{2, 0.5}, {4, 0.4}}, "loss")));
  // The checkpoint at 4 is lost, or still under way.
  const v1::JobRecord lost = Record({2}, {{2, 0.5}, {4, 0.7}, {6, 0.6}});
  EXPECT_TRUE(worth(lost));
  EXPECT_FALSE(worth(lost, 4));
  EXPECT_TRUE(worth(Record({2, 4}, {{2, 0.5}, {4, 0.7}}))) << "it is there already: a repeat";
  EXPECT_FALSE(worth(Record({}, {{2, std::numeric_limits<double>::quiet_NaN()}})));
  v1::JobRecord resumed = Record({}, {{4, 0.5}});
  resumed.set_initial_resumes(true);
  resumed.set_initial_clock(4);
  EXPECT_FALSE(worth(resumed)) << "these weights are the other job's";
}

TEST(BestEvaluationTest, AMissingOneIsExplained) {
  v1::JobRecord record = Record({2, 4}, {});
  const auto why = [&] {
    return std::string(FindNamedCheckpoint(record, {.job_id = "j1", .clock = {}, .best = true})
                           .status()
                           .message());
  };
  EXPECT_THAT(why(), AllOf(HasSubstr("no checkpoint whose weights were evaluated"),
                           HasSubstr("name another one, at 2, 4")));
  record.mutable_spec()->mutable_checkpoint()->set_keep_best(false);
  EXPECT_THAT(why(), HasSubstr("keeps none (checkpoint.keep_best is false)"));
  *record.mutable_spec() = ProgramJob();
  EXPECT_THAT(why(), HasSubstr("runs a program"));
  record.clear_checkpoints();
  EXPECT_THAT(why(), HasSubstr("has no checkpoint yet"));
}

class BestCheckpointTest : public ::testing::Test {
 protected:
  BestCheckpointTest() {
    for (const char* server : {"s0", "s1"}) cluster_.AddServer(server);
    for (const char* worker : {"w0", "w1", "w2"}) cluster_.AddWorker(worker);
  }

  // A job of many steps that trains; `keep` of its last checkpoints are kept.
  std::string Running(uint32_t keep, v1::JobSpec spec = SmallJob()) {
    spec.mutable_stop()->set_steps(kSteps);
    spec.mutable_checkpoint()->set_keep(keep);
    const std::string job = *cluster_.Submit(spec);
    Meet(job);
    return job;
  }
  void Meet(const std::string& job) {
    for (const v1::TaskOrder& order : cluster_.Orders(job)) cluster_.Rendezvous(order, kSteps);
  }

  // Evaluates on all slots. Returns whether all were asked to keep the weights; they agree.
  bool Evaluate(const std::string& job, uint64_t clock, uint64_t correct) {
    std::vector<Answer<v1::ReportEvaluationReply>> answers;
    for (const v1::TaskOrder& order : cluster_.Orders(job)) {
      answers.push_back(cluster_.Evaluate(order, clock, correct));
    }
    for (const auto& answer : answers) {
      EXPECT_EQ(answer.status(), absl::OkStatus());
      EXPECT_EQ(answer.get()->keep(), answers[0].get()->keep());
    }
    return answers[0].get()->keep();
  }
  void Commit(const std::string& job, uint64_t clock) {
    EXPECT_EQ(cluster_.Checkpoint(*cluster_.Order(job, 0), clock).status(), absl::OkStatus());
  }

  std::vector<uint64_t> Clocks(const std::string& job) {
    std::vector<uint64_t> clocks;
    const v1::JobRecord& record = cluster_.coordinator().table().Find(job)->record;
    for (const v1::CheckpointRecord& checkpoint : record.checkpoints()) {
      clocks.push_back(checkpoint.clock());
      EXPECT_EQ(cluster_.archive.folders.count(checkpoint.uri()), 1u) << checkpoint.uri();
    }
    return clocks;
  }
  // Clock of JOB@best; 0: there is none.
  uint64_t Best(const std::string& job) { return cluster_.Status(job).best().clock(); }

  static constexpr uint64_t kSteps = 10000;
  SimulatedCluster cluster_;
};

TEST_F(BestCheckpointTest, TheBestStaysBesideTheLastUntilThereIsABetterOne) {
  const std::string job = Running(/*keep=*/1);
  EXPECT_TRUE(Evaluate(job, 2, 5));
  EXPECT_EQ(Best(job), 0) << "it is not committed yet";
  Commit(job, 2);
  EXPECT_EQ(Best(job), 2);
  EXPECT_TRUE(Evaluate(job, 4, 7));
  EXPECT_EQ(Best(job), 2) << "it is not committed yet";
  Commit(job, 4);
  EXPECT_THAT(Clocks(job), ElementsAre(4));
  EXPECT_FALSE(Evaluate(job, 6, 6));
  EXPECT_FALSE(Evaluate(job, 8, 7)) << "an equal one is not better";
  for (const uint64_t clock : {8, 9, 10}) Commit(job, clock);
  EXPECT_THAT(Clocks(job), ElementsAre(4, 10));
  EXPECT_EQ(cluster_.Status(job).best().value(), 0.7);
  EXPECT_EQ(cluster_.Status(job).checkpoint_clock(), 10);
  EXPECT_TRUE(cluster_.HasEvent(job, "step 4: accuracy 0.7, loss 0.3 over 20 examples; the best"));
  EXPECT_TRUE(Evaluate(job, 12, 8));
  Commit(job, 12);
  EXPECT_THAT(Clocks(job), ElementsAre(12));
}

TEST_F(BestCheckpointTest, OutlivesRestartsAndTheJob) {
  const std::string job = Running(/*keep=*/1);
  EXPECT_TRUE(Evaluate(job, 2, 9));
  Commit(job, 2);
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  EXPECT_FALSE(Evaluate(job, 4, 8));
  Commit(job, 4);
  EXPECT_THAT(Clocks(job), ElementsAre(2, 4));
  v1::CancelJobRequest cancel;
  cancel.set_job_id(job);
  ASSERT_TRUE(cluster_.coordinator().jobs().Cancel(cancel).ok());
  cluster_.Pass(absl::Minutes(1));
  EXPECT_THAT(Clocks(job), ElementsAre(2, 4));
  EXPECT_EQ(Best(job), 2);
}

TEST_F(BestCheckpointTest, OfAJobThatHasSucceededIsTheLastIfThatIsBetter) {
  const std::string job = Running(/*keep=*/1);
  EXPECT_TRUE(Evaluate(job, 2, 5));
  Commit(job, 2);
  // The last checkpoint is there before its evaluation.
  Commit(job, kSteps);
  EXPECT_EQ(Best(job), 2);
  EXPECT_TRUE(Evaluate(job, kSteps, 6));
  EXPECT_EQ(Best(job), kSteps);
  cluster_.EndAll(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
  cluster_.Pass(absl::Minutes(1));
  EXPECT_THAT(Clocks(job), ElementsAre(kSteps));
}

TEST_F(BestCheckpointTest, StaysWithWhatItGoesOnFrom) {
  cluster_.archive.bases = {{4, 2}, {6, 4}};
  const std::string job = Running(/*keep=*/1);
  Commit(job, 2);
  EXPECT_TRUE(Evaluate(job, 4, 5));
  for (const uint64_t clock : {4, 6, 8, 10}) Commit(job, clock);
  EXPECT_THAT(Clocks(job), ElementsAre(2, 4, 10));
}

// A task that repeats the evaluation takes part in the cut, or not, as the others do.
TEST_F(BestCheckpointTest, ARepeatGetsTheSameAnswerWhateverHappenedMeanwhile) {
  const std::string job = Running(/*keep=*/2);
  EXPECT_TRUE(Evaluate(job, 2, 5));
  Commit(job, 2);
  // Both get their answers while a better one's checkpoint is under way.
  EXPECT_TRUE(Evaluate(job, 4, 7));
  EXPECT_FALSE(Evaluate(job, 6, 6));
  v1::DeleteCheckpointRequest request;
  request.set_job_id(job);
  request.set_clock(2);
  Commit(job, 6);
  Answer<v1::DeleteCheckpointReply> deleted;
  cluster_.coordinator().checkpoints().Delete(request, deleted.call());
  cluster_.Run();
  EXPECT_EQ(Best(job), 6);
  cluster_.Die(*cluster_.Order(job, 1));
  cluster_.Pass(absl::Seconds(5));
  Meet(job);
  EXPECT_FALSE(Evaluate(job, 6, 6)) << "slot 0 has trained on without a cut";
}

// The task that commits is lost between the evaluation and the commit.
TEST_F(BestCheckpointTest, ATaskThatRepeatsTheEvaluationIsAskedAgain) {
  const std::string job = Running(/*keep=*/1);
  EXPECT_TRUE(Evaluate(job, 2, 5));
  cluster_.Die(*cluster_.Order(job, 0));
  EXPECT_EQ(cluster_.Order(job, 0)->incarnation(), 2u);
  Meet(job);
  EXPECT_TRUE(Evaluate(job, 2, 5));
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  Meet(job);
  EXPECT_TRUE(Evaluate(job, 2, 5));
  Commit(job, 2);
  EXPECT_EQ(Best(job), 2);
}

// It is lost for good once its tasks have trained on, and may not keep better ones from counting.
TEST_F(BestCheckpointTest, AnEvaluationWhoseCheckpointIsLostDoesNotCount) {
  const std::string job = Running(/*keep=*/1);
  EXPECT_TRUE(Evaluate(job, 2, 5));
  Commit(job, 2);
  EXPECT_TRUE(Evaluate(job, 4, 9));
  v1::CommitCheckpointRequest failed;
  *failed.mutable_task() = cluster_.Identity(*cluster_.Order(job, 0));
  failed.set_clock(4);
  failed.set_failure("no space left");
  Answer<v1::CommitCheckpointReply> answer;
  cluster_.coordinator().tasks().CommitCheckpoint(failed, answer.call());
  cluster_.Run();
  EXPECT_EQ(Best(job), 2);
  Commit(job, 5);
  EXPECT_THAT(Clocks(job), ElementsAre(2, 5)) << "the best of what is left";
  EXPECT_FALSE(Evaluate(job, 6, 4));
  EXPECT_TRUE(Evaluate(job, 8, 6));
  Commit(job, 8);
  EXPECT_EQ(Best(job), 8);
}

TEST_F(BestCheckpointTest, ARollBackForgetsLaterEvaluationsAndKeepsTheBestBefore) {
  const std::string job = Running(/*keep=*/1);
  EXPECT_TRUE(Evaluate(job, 2, 5));
  Commit(job, 2);
  EXPECT_FALSE(Evaluate(job, 4, 4));
  Commit(job, 4);
  EXPECT_TRUE(Evaluate(job, 6, 9)) << "its checkpoint never comes";
  cluster_.ProgressAll(job, 7);
  cluster_.Kill("s0");
  cluster_.Pass(absl::Seconds(20));
  ASSERT_EQ(cluster_.coordinator().table().Find(job)->record.generation(), 2u);
  EXPECT_EQ(cluster_.Order(job, 0)->start_clock(), 4u);
  EXPECT_THAT(Clocks(job), ElementsAre(2, 4));
  EXPECT_EQ(Best(job), 2);
  Meet(job);
  EXPECT_FALSE(Evaluate(job, 4, 4)) << "known from before";
  EXPECT_TRUE(Evaluate(job, 6, 6));
  Commit(job, 6);
  EXPECT_EQ(Best(job), 6);
  EXPECT_THAT(Clocks(job), ElementsAre(4, 6)) << "the generation began at 4";
}

TEST_F(BestCheckpointTest, StaysAmongMoreEvaluationsThanAreKept) {
  const std::string job = Running(/*keep=*/1);
  EXPECT_TRUE(Evaluate(job, 1, 9));
  Commit(job, 1);
  for (uint64_t clock = 2; clock < 1010; ++clock) {
    for (const v1::TaskOrder& order : cluster_.Orders(job)) cluster_.Evaluate(order, clock, 3);
  }
  Commit(job, 1010);
  EXPECT_EQ(cluster_.Status(job).evaluations_size(), 1000);
  EXPECT_EQ(Best(job), 1);
  EXPECT_THAT(Clocks(job), ElementsAre(1, 1010));
}

TEST_F(BestCheckpointTest, OtherJobsStartFromIt) {
  const std::string job = Running(/*keep=*/1);
  v1::JobSpec next = SmallJob();
  next.set_initial_weights(job + "@best");
  EXPECT_EQ(cluster_.Submit(next).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Evaluate(job, 2, 5));
  Commit(job, 2);
  Commit(job, kSteps);
  EXPECT_FALSE(Evaluate(job, kSteps, 4));
  cluster_.EndAll(job);
  const std::string other = *cluster_.Submit(next);
  EXPECT_EQ(cluster_.Order(other, 0)->restore_uri(), absl::StrCat("/checkpoints/", job, "/2"));
  EXPECT_EQ(cluster_.Status(other).spec().initial_weights(), job + "@2")
      << "the job may have another best one later";
  cluster_.Finish(other);
  next.clear_initial_weights();
  next.set_resume_from(job + "@best");
  const std::string resumed = *cluster_.Submit(next);
  EXPECT_EQ(cluster_.Order(resumed, 0)->start_clock(), 2u);
  cluster_.MeetAll(resumed);
  EXPECT_FALSE(Evaluate(resumed, 2, 5)) << "these weights are the other job's";
  EXPECT_TRUE(Evaluate(resumed, 4, 3)) << "its own first ones";
}

TEST_F(BestCheckpointTest, WithoutKeepBestNothingChanges) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_checkpoint()->set_keep_best(false);
  const std::string job = Running(/*keep=*/1, spec);
  EXPECT_FALSE(Evaluate(job, 2, 9));
  EXPECT_FALSE(cluster_.HasEvent(job, "the best so far"));
  for (const uint64_t clock : {2, 4}) Commit(job, clock);
  EXPECT_THAT(Clocks(job), ElementsAre(4));
  EXPECT_FALSE(cluster_.Status(job).has_best());
}

}  // namespace
}  // namespace muster
