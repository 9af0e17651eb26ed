#include "server/coordinator/job/training_data.h"

#include <string>

#include "absl/time/time.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kData = 7, kOtherData = 8;
constexpr int kSteps = 10;

class TrainingDataTest : public ::testing::Test {
 protected:
  TrainingDataTest() {
    cluster_.AddServer("s0");
    for (const char* worker : {"w0", "w1"}) cluster_.AddWorker(worker, 4);
  }

  // A job of kData that has ended, with a checkpoint at step 4 and one at its end.
  std::string Trained() {
    v1::JobSpec spec = SmallJob();
    spec.mutable_checkpoint()->set_keep(2);
    const std::string job = *cluster_.Submit(spec);
    cluster_.MeetAll(job);
    EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 4).status().ok());
    cluster_.Finish(job);
    return job;
  }

  // What slot 0 is told once all slots have come with this data.
  absl::Status Meet(const std::string& job, uint64_t data) {
    // A job that goes back again and again waits longer each time.
    for (int i = 0; i < 100 && cluster_.Orders(job).size() < 2; ++i)
      cluster_.Pass(absl::Seconds(1));
    const auto first = cluster_.Rendezvous(*cluster_.Order(job, 0), kSteps, data);
    if (!first.came()) cluster_.Rendezvous(*cluster_.Order(job, 1), kSteps, data);
    return first.status();
  }

  SimulatedCluster cluster_;
};

TEST_F(TrainingDataTest, AJobThatGoesBackFindsTheDataThatItHad) {
  for (const v1::JobSpec& spec : {SmallJob(), AllReduceJob()}) {
    for (const bool checkpoint : {false, true}) {
      const std::string job = *cluster_.Submit(spec);
      EXPECT_EQ(Meet(job, kData), absl::OkStatus());
      cluster_.ProgressAll(job, 6);
      if (checkpoint) {
        EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 4).status().ok());
      }
      const auto lose = [&] {
        for (const char* daemon : {"s0", "w0", "w1"}) cluster_.RestartDaemon(daemon);
        cluster_.RestartCoordinator();
        cluster_.BeatAll();
      };
      lose();
      EXPECT_EQ(Meet(job, kData), absl::OkStatus());
      EXPECT_EQ(cluster_.Order(job, 0)->generation(), 2);
      // Twice, without having met in between.
      lose();
      lose();
      EXPECT_EQ(Meet(job, kOtherData).code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_EQ(cluster_.State(job), v1::FAILED);
      EXPECT_THAT(cluster_.Status(job).message(),
                  AllOf(HasSubstr("not those that the job was trained on: it had 80 training and "
                                  "20 held-out examples"),
                        HasSubstr("as many with other content"),
                        HasSubstr("data_fingerprint 0000000000000007 then, 0000000000000008 now"),
                        HasSubstr("muster checkpoint restore " + job)));
    }
  }
}

TEST_F(TrainingDataTest, SaysHowManyExamplesThereWereAndAre) {
  v1::JobRecord record;
  record.mutable_expected_data()->set_fingerprint(kData);
  record.mutable_expected_data()->set_training_examples(80);
  record.mutable_expected_data()->set_held_out_examples(20);
  v1::RendezvousRequest request;
  request.mutable_task()->set_slot(1);
  request.set_data_fingerprint(kData);
  request.set_training_examples(80);
  request.set_held_out_examples(20);
  EXPECT_EQ(CompareWithJob(request, record), absl::OkStatus());
  request.set_training_examples(12);
  EXPECT_THAT(std::string(CompareWithJob(request, record).message()),
              HasSubstr("it had 80 training and 20 held-out examples, slot 1 has 12 training and "
                        "20 held-out examples"));
  record.clear_expected_data();
  EXPECT_EQ(CompareWithJob(request, record), absl::OkStatus()) << "of a record of before";
}

TEST_F(TrainingDataTest, TheSameWordsStandForTheSameDataWhereAJobGoesOnFromAnother) {
  const std::string source = Trained();
  v1::JobSpec spec = SmallJob();
  spec.set_resume_from(source + "@4");
  const std::string same = *cluster_.Submit(spec);
  EXPECT_EQ(Meet(same, kData), absl::OkStatus());
  cluster_.Finish(same);
  const std::string grown = *cluster_.Submit(spec);
  EXPECT_EQ(Meet(grown, kOtherData).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(cluster_.Status(grown).message(),
              AllOf(HasSubstr("those that " + source + "@4 was trained on"),
                    HasSubstr("name it in `data`")));
  // What went on from another job had the same data, too.
  spec.set_resume_from(same);
  spec.mutable_stop()->set_steps(20);
  const std::string next = *cluster_.Submit(spec);
  EXPECT_EQ(Meet(next, kOtherData).code(), absl::StatusCode::kFailedPrecondition);

  // Other data on purpose.
  spec.mutable_data()->mutable_synthetic_classification()->set_seed(2);
  const std::string other = *cluster_.Submit(spec);
  EXPECT_TRUE(cluster_.HasEvent(other, "data need not be those of " + same));
  EXPECT_EQ(Meet(other, kOtherData), absl::OkStatus());
  v1::JobSpec afresh = SmallJob();
  afresh.set_initial_weights(source);
  const std::string job = *cluster_.Submit(afresh);
  EXPECT_EQ(Meet(job, kOtherData), absl::OkStatus());
}

TEST_F(TrainingDataTest, AJobThatGoesOnKeepsTheSeedThatDrewItsHoldout) {
  const std::string source = Trained();
  v1::JobSpec spec = SmallJob();
  spec.set_resume_from(source + "@4");
  spec.set_seed(7);
  EXPECT_TRUE(cluster_.Submit(spec).ok()) << "the end of the data is held out, whatever the seed";
  spec.mutable_data()->set_shuffle_holdout(true);
  const absl::Status other = cluster_.Submit(spec).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(other.message()),
      AllOf(HasSubstr("whose seed is 0"), HasSubstr("seed is 7"), HasSubstr("keep the seed")));
}

TEST_F(TrainingDataTest, AnEvaluationOfTheSameDataMeasuresWhatWasHeldOut) {
  const std::string source = Trained();
  v1::JobSpec spec = SmallJob();
  spec.set_initial_weights(source);
  spec.clear_stop();
  spec.mutable_stop()->set_evaluate_only(true);
  const std::string grown = *cluster_.Submit(spec);
  EXPECT_EQ(Meet(grown, kOtherData).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(cluster_.Status(grown).message(),
              HasSubstr("muster evaluate " + source + " --data PATH"));
  EXPECT_EQ(Meet(*cluster_.Submit(spec), kData), absl::OkStatus());
  spec.mutable_data()->set_holdout(1);
  EXPECT_EQ(Meet(*cluster_.Submit(spec), kOtherData), absl::OkStatus());
}

TEST_F(TrainingDataTest, OrdersSayWhereInTheDataAJobBegins) {
  const std::string source = Trained();
  EXPECT_EQ(cluster_.coordinator().jobs().Get(source)->spec().batch_size(), 8);
  v1::JobSpec spec = SmallJob();
  spec.set_resume_from(source + "@4");
  spec.set_batch_size(20);
  spec.mutable_stop()->set_steps(6);
  const std::string larger = *cluster_.Submit(spec);
  EXPECT_EQ(cluster_.Order(larger, 0)->data_clock(), 4);
  EXPECT_EQ(cluster_.Order(larger, 0)->data_examples(), 4 * 8);
  // Also after it has gone back.
  cluster_.MeetAll(larger);
  EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(larger, 0), 5).status().ok());
  cluster_.RestartDaemon("s0");
  cluster_.BeatAll();
  EXPECT_EQ(cluster_.Order(larger, 0)->start_clock(), 5);
  EXPECT_EQ(cluster_.Order(larger, 0)->data_clock(), 4);
  EXPECT_EQ(cluster_.Order(larger, 0)->data_examples(), 4 * 8);
  cluster_.Finish(larger, 6);
  ASSERT_EQ(cluster_.State(larger), v1::SUCCEEDED) << cluster_.Status(larger).message();
  spec.set_resume_from(larger);
  spec.set_batch_size(2);
  spec.mutable_stop()->set_steps(20);
  const std::string smaller = *cluster_.Submit(spec);
  EXPECT_EQ(cluster_.Order(smaller, 1)->data_clock(), 6);
  EXPECT_EQ(cluster_.Order(smaller, 1)->data_examples(), 4 * 8 + 2 * 20);
  // And where the jobs before began.
  ASSERT_EQ(cluster_.Order(smaller, 1)->earlier_data_clocks_size(), 1);
  EXPECT_EQ(cluster_.Order(smaller, 1)->earlier_data_clocks(0), 4);
  EXPECT_EQ(cluster_.Order(smaller, 1)->earlier_data_examples(0), 4 * 8);
}

TEST_F(TrainingDataTest, EachJobAddsWhereItBegan) {
  v1::JobRecord first, second, third, fourth;
  first.mutable_spec()->set_batch_size(8);
  SetPositions(first, 4, second);
  EXPECT_EQ(second.earlier_clocks_size(), 0);
  EXPECT_EQ(second.initial_clock(), 4);
  EXPECT_EQ(second.initial_examples(), 32);
  second.mutable_spec()->set_batch_size(20);
  SetPositions(second, 6, third);
  EXPECT_EQ(third.initial_examples(), 72);
  third.mutable_spec()->set_batch_size(1);
  SetPositions(third, 7, fourth);
  EXPECT_THAT(fourth.earlier_clocks(), ::testing::ElementsAre(4, 6));
  EXPECT_THAT(fourth.earlier_examples(), ::testing::ElementsAre(32, 72));
  EXPECT_EQ(fourth.initial_examples(), 73);
}

TEST_F(TrainingDataTest, AJobAddsWhereItsBatchesChanged) {
  v1::JobRecord first, second;
  first.mutable_spec()->set_batch_size(8);
  for (const uint64_t step : {2, 5, 9}) {
    v1::BatchChange& change = *first.mutable_spec()->add_batch_changes();
    change.set_step(step);
    change.set_batch_size(10 * step);
  }
  SetPositions(first, 6, second);
  EXPECT_THAT(second.earlier_clocks(), ::testing::ElementsAre(2, 5));
  EXPECT_THAT(second.earlier_examples(), ::testing::ElementsAre(16, 76));
  EXPECT_EQ(second.initial_examples(), 126);
  EXPECT_EQ(PositionsOf(second), BatchesOf(first.spec()).PositionsUpTo(6));
}

TEST_F(TrainingDataTest, WhatWasDecidedCounts) {
  v1::JobRecord first, second;
  first.mutable_spec()->set_batch_size(8);
  const auto decide = [&](uint64_t clock, uint32_t batch_size, uint64_t skipped) {
    v1::Adjustment& added = *first.add_adjustments();
    added.set_clock(clock);
    added.set_batch_size(batch_size);
    added.set_skipped_examples(skipped);
  };
  decide(2, 16, 0);
  EXPECT_TRUE(PositionsOf(first).empty()) << "tasks hear of batches themselves";
  decide(4, 16, 100);
  decide(6, 16, 0);
  EXPECT_THAT(PositionsOf(first), ::testing::ElementsAre(DataPosition{2, 16}, DataPosition{4, 48},
                                                         DataPosition{4, 148}));
  SetPositions(first, 5, second);
  EXPECT_EQ(second.initial_examples(), 164);
  EXPECT_THAT(second.earlier_clocks(), ::testing::ElementsAre(2, 4, 4));
  SetPositions(first, 3, second);
  EXPECT_EQ(second.initial_examples(), 32) << "before they were passed over";
}

TEST_F(TrainingDataTest, ARecordOfBeforeCountsItsOwnBatches) {
  v1::JobRecord record;
  record.mutable_spec()->set_batch_size(8);
  record.set_initial_clock(3);
  EXPECT_THAT(PositionsOf(record), ::testing::ElementsAre(DataPosition{3, 24}));
  record.set_initial_examples(60);
  EXPECT_THAT(PositionsOf(record), ::testing::ElementsAre(DataPosition{3, 60}));
}

}  // namespace
}  // namespace muster
