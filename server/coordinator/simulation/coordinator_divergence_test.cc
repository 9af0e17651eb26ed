// Jobs that go back when their training loss is not finite, or jumps.
#include <string>
#include <utility>

#include "absl/time/time.h"
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

class DivergenceTest : public testing::TestWithParam<v1::UpdateSpec::Road> {
 protected:
  DivergenceTest() {
    cluster_.AddServer("s0");
    for (const char* worker : {"w0", "w1"}) cluster_.AddWorker(worker);
    spec_ = SmallJob();
    spec_.mutable_update()->set_dense(GetParam());
    spec_.mutable_stop()->set_steps(100);
    spec_.mutable_checkpoint()->set_every_steps(5);
    spec_.mutable_checkpoint()->set_keep(10);
    spec_.mutable_divergence()->set_max_returns(2);
  }

  void Start() {
    job_ = *cluster_.Submit(spec_);
    Meet();
  }

  void Meet() {
    for (const v1::TaskOrder& order : cluster_.Orders(job_)) {
      cluster_.Rendezvous(order, /*total_steps=*/100);
    }
    cluster_.Pass(absl::Seconds(6));
    ASSERT_EQ(Status().state(), v1::RUNNING) << Status().message();
  }

  // Has all tasks report the steps after `from` up to `to`, with this loss.
  void Train(uint64_t from, uint64_t to, double loss) {
    for (uint64_t clock = from + 1; clock <= to; ++clock) {
      for (const v1::TaskOrder& order : cluster_.Orders(job_)) {
        ASSERT_TRUE(cluster_.Progress(order, clock, loss).ok());
      }
    }
  }

  void Checkpoint(uint64_t clock) {
    for (const v1::TaskOrder& order : cluster_.Orders(job_)) {
      const auto answer = cluster_.Checkpoint(order, clock);
      if (order.slot() == 0) ASSERT_TRUE(answer.status().ok()) << answer.status();
    }
  }

  // Has a task end since the step after `clock` has no finite loss.
  void Diverge(uint64_t clock) {
    cluster_.End(*cluster_.Order(job_, 0), static_cast<int>(absl::StatusCode::kOutOfRange),
                 "diverged at step " + std::to_string(clock + 1) + ": loss is nan",
                 v1::TaskReport::DIVERGED);
    cluster_.Pass(absl::Seconds(6));
  }

  v1::JobStatus Status() { return cluster_.Status(job_); }

  SimulatedCluster cluster_;
  v1::JobSpec spec_;
  std::string job_;
};

TEST_P(DivergenceTest, GoesBackWithALowerRate) {
  Start();
  Train(0, 5, 1);
  Checkpoint(5);
  Train(5, 8, 1);
  Diverge(8);
  EXPECT_EQ(Status().generation(), 2u);
  EXPECT_EQ(cluster_.Order(job_, 0)->start_clock(), 5u);
  ASSERT_EQ(Status().adjustments_size(), 1);
  EXPECT_EQ(Status().adjustments(0).clock(), 5u);
  EXPECT_EQ(Status().adjustments(0).rate_factor(), 0.5);
  EXPECT_TRUE(cluster_.HasEvent(job_, "generation 2 starts again from clock 5"));
  EXPECT_TRUE(cluster_.HasEvent(
      job_, "from step 5 on the learning rate is 0.5 times the scheduled one: went back since"));
  // It is the job's, so a restart changes nothing.
  cluster_.RestartCoordinator();
  cluster_.Pass(absl::Seconds(6));
  EXPECT_EQ(Status().adjustments_size(), 1);
  Meet();
  Train(5, 8, 1);
  Checkpoint(8);
  Train(8, 9, 1);
  Diverge(9);
  EXPECT_EQ(cluster_.Order(job_, 0)->start_clock(), 8u);
  EXPECT_EQ(Status().adjustments(1).rate_factor(), 0.25);
}

TEST_P(DivergenceTest, ACheckpointOfTheWeightsThatDivergeIsNotGood) {
  Start();
  Train(0, 5, 1);
  Checkpoint(5);
  Train(5, 10, 1);
  Checkpoint(10);
  Diverge(10);
  EXPECT_EQ(cluster_.Order(job_, 0)->start_clock(), 5u);
  ASSERT_EQ(Status().damaged_checkpoints_size(), 1);
  EXPECT_THAT(Status().damaged_checkpoints(0).damage(),
              HasSubstr("when the training loss had risen, at step 11"));
  Meet();
  Train(5, 10, 1);
  Checkpoint(10);
  EXPECT_EQ(Status().damaged_checkpoints_size(), 0) << "it was made again";
}

TEST_P(DivergenceTest, WithoutACheckpointItBeginsAgainAndTheRateFallsEachTime) {
  Start();
  Train(0, 5, 1);
  Checkpoint(5);
  Train(5, 8, 1);
  Diverge(8);
  Meet();
  // The checkpoint, too, has weights that diverge at once.
  Diverge(5);
  EXPECT_EQ(cluster_.Order(job_, 0)->start_clock(), 0u);
  ASSERT_EQ(Status().adjustments_size(), 1);
  EXPECT_EQ(Status().adjustments(0).clock(), 0u);
  EXPECT_EQ(Status().adjustments(0).rate_factor(), 0.25) << "for both returns";
}

TEST_P(DivergenceTest, FailsOnceItHasGoneBackAsOftenAsItMay) {
  Start();
  for (int i = 0; i < 2; ++i) {
    Train(0, 3, 1);
    Diverge(3);
    Meet();
  }
  Train(0, 3, 1);
  Diverge(3);
  EXPECT_EQ(Status().state(), v1::FAILED);
  EXPECT_THAT(Status().message(), AllOf(HasSubstr("gone back 2 times"), HasSubstr("loss is nan"),
                                        HasSubstr("divergence.max_returns"),
                                        HasSubstr("lower optimizer.learning_rate")));
}

TEST_P(DivergenceTest, WithoutItTheJobFailsAtOnce) {
  spec_.clear_divergence();
  Start();
  Train(0, 5, 1);
  Checkpoint(5);
  Diverge(5);
  EXPECT_EQ(Status().state(), v1::FAILED);
  EXPECT_THAT(Status().message(), HasSubstr("loss is nan"));
}

TEST_P(DivergenceTest, AJumpOfTheLossTakesItBackBeforeTheJump) {
  spec_.mutable_divergence()->set_jump(3);
  Start();
  Train(0, 20, 1);
  Checkpoint(20);
  Train(20, 25, 1);
  Checkpoint(25);
  // The loss of step 26 is that of the weights at clock 25.
  Train(25, 26, 4);
  cluster_.Pass(absl::Seconds(6));
  EXPECT_EQ(Status().generation(), 2u);
  EXPECT_EQ(cluster_.Order(job_, 0)->start_clock(), 20u);
  ASSERT_EQ(Status().adjustments_size(), 1);
  EXPECT_THAT(Status().adjustments(0).reason(),
              HasSubstr("the training loss jumped to 4 at step 26"));
}

TEST_P(DivergenceTest, HigherLossesAreNoReasonUnlessAskedFor) {
  Start();
  Train(0, 20, 1);
  Train(20, 25, 50);
  cluster_.Pass(absl::Seconds(6));
  EXPECT_EQ(Status().generation(), 1u);
}

TEST_P(DivergenceTest, PassesOverTheExamplesThatWereSeen) {
  spec_.mutable_divergence()->set_rate_factor(1);
  spec_.mutable_divergence()->set_skip_examples(true);
  Start();
  Train(0, 5, 1);
  Checkpoint(5);
  Train(5, 8, 1);
  Diverge(8);
  ASSERT_EQ(Status().adjustments_size(), 1);
  EXPECT_EQ(Status().adjustments(0).rate_factor(), 1);
  // Steps 6 to 9 have 8 examples each.
  EXPECT_EQ(Status().adjustments(0).skipped_examples(), 32u);
  const v1::TaskOrder order = *cluster_.Order(job_, 0);
  EXPECT_EQ(order.data_clock(), 5u);
  EXPECT_EQ(order.data_examples(), 72u);
  ASSERT_EQ(order.earlier_data_clocks_size(), 1);
  EXPECT_EQ(order.earlier_data_clocks(0), 5u);
  EXPECT_EQ(order.earlier_data_examples(0), 40u);
  Meet();
  Train(5, 6, 1);
  Diverge(6);
  EXPECT_EQ(cluster_.Order(job_, 0)->data_examples(), 88u) << "behind those of steps 6 and 7, too";
}

TEST_P(DivergenceTest, PassesOverBatchesThatChange) {
  for (const auto& [step, batch_size] : {std::pair<uint64_t, uint32_t>{3, 10}, {7, 20}}) {
    v1::BatchChange& change = *spec_.add_batch_changes();
    change.set_step(step);
    change.set_batch_size(batch_size);
  }
  spec_.mutable_divergence()->set_skip_examples(true);
  Start();
  Train(0, 5, 1);
  Checkpoint(5);
  Train(5, 8, 1);
  Diverge(8);
  ASSERT_EQ(Status().adjustments_size(), 1);
  // Steps 6 and 7 have 10 examples each, 8 and 9 have 20.
  EXPECT_EQ(Status().adjustments(0).skipped_examples(), 60u);
  const v1::TaskOrder order = *cluster_.Order(job_, 0);
  EXPECT_EQ(order.data_clock(), 5u);
  EXPECT_EQ(order.data_examples(), 104u);
  EXPECT_THAT(order.earlier_data_clocks(), ElementsAre(3, 5));
  EXPECT_THAT(order.earlier_data_examples(), ElementsAre(24, 44));
}

INSTANTIATE_TEST_SUITE_P(Roads, DivergenceTest,
                         testing::Values(v1::UpdateSpec::PARAMETER_SERVER,
                                         v1::UpdateSpec::ALL_REDUCE));

}  // namespace
}  // namespace muster
