// The checkpoints and evaluations that the trainer makes, and their order.
#include <cstdint>
#include <fstream>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/training/trainer_fixture_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(TrainerTest, ChecksPointsAtIntervalsAndAtTheEnd) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_checkpoint()->set_every_steps(15);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(strategy_->cuts(), ElementsAre(15, 30, 40));
  EXPECT_THAT(committed_, ElementsAre(3)) << "the last one ends once the coordinator has answered";
  auto checkpoints = coordinator_.checkpoints();
  ASSERT_EQ(checkpoints.size(), 3);
  EXPECT_EQ(checkpoints[2].clock(), 40);
  ASSERT_EQ(checkpoints[2].files_size(), 2);
  EXPECT_EQ(checkpoints[2].files(1).partition(), 1);
  EXPECT_EQ(checkpoints[2].files(1).path(), "f1");
  EXPECT_EQ(checkpoints[2].files(1).bytes(), 20);
  EXPECT_EQ(checkpoints[2].files(1).checksum(), 21);
  v1::TablesSchema schema;
  ASSERT_TRUE(schema.ParseFromString(checkpoints[2].schema()));
  EXPECT_EQ(schema.total_steps(), 40);
  EXPECT_EQ(checkpoints[2].rank_files(), 0);
}

TEST_F(TrainerTest, TheAnswerToAnEvaluationMayAskForACheckpoint) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_checkpoint()->set_every_steps(15);
  spec.mutable_evaluation()->set_every_steps(10);
  std::vector<size_t> committed;
  coordinator_.OnEvaluation([&](const v1::ReportEvaluationRequest& share) {
    committed.push_back(committed_.size());
    v1::ReportEvaluationReply reply;
    reply.set_keep(share.clock() != 20);
    return reply;
  });
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(EvaluatedClocks(), ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(strategy_->cuts(), ElementsAre(10, 15, 30, 40)) << "one at 30, which is due, too";
  EXPECT_THAT(committed, ElementsAre(0, 0, 0, 1)) << "the last one alone comes before";
}

TEST_F(TrainerTest, ACheckpointThatIsThereIsNotTakenAgainForItsEvaluation) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(10);
  options_.checkpoint_clock = 20;
  coordinator_.OnEvaluation([](const v1::ReportEvaluationRequest&) {
    v1::ReportEvaluationReply reply;
    reply.set_keep(true);
    return reply;
  });
  ASSERT_EQ(Run(spec, 20), absl::OkStatus());
  EXPECT_THAT(strategy_->cuts(), ElementsAre(30, 40));
}

TEST_F(TrainerTest, OfShardGroupsEachRankWritesOneFile) {
  v1::JobSpec spec = MlpSpec();
  spec.set_workers(4);
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_parallelism()->mutable_zero()->set_stage(2);
  spec.mutable_parallelism()->mutable_zero()->set_shard(2);
  options_.mesh = Mesh::FromSpec({}, 4).value();
  ASSERT_EQ(Run(spec), absl::OkStatus());
  ASSERT_EQ(coordinator_.checkpoints().size(), 1);
  EXPECT_EQ(coordinator_.checkpoints()[0].rank_files(), 4);
}

TEST_F(TrainerTest, OnlyRankZeroCommits) {
  v1::JobSpec spec = MlpSpec();
  spec.set_workers(2);
  options_.slot = 1;
  options_.mesh = Mesh::FromSpec({}, 2).value();
  options_.rank = 1;
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(strategy_->cuts(), ElementsAre(40));
  EXPECT_THAT(committed_, ElementsAre(0));
  EXPECT_THAT(coordinator_.checkpoints(), IsEmpty());
}

TEST_F(TrainerTest, ASlotTakenOverRepeatsWhatIsDueAtItsClock) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_checkpoint()->set_every_steps(10);
  spec.mutable_evaluation()->set_every_steps(10);
  ASSERT_EQ(Run(spec, 20), absl::OkStatus());
  EXPECT_THAT(strategy_->cuts(), ElementsAre(20, 30, 40));
  EXPECT_THAT(EvaluatedClocks(), ElementsAre(20, 30, 40));
}

TEST_F(TrainerTest, ARestoredCheckpointIsNotWrittenAgain) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_checkpoint()->set_every_steps(10);
  options_.checkpoint_clock = 20;
  ASSERT_EQ(Run(spec, 20), absl::OkStatus());
  EXPECT_THAT(strategy_->cuts(), ElementsAre(30, 40));
}

TEST_F(TrainerTest, NothingIsWrittenUpToTheLastCheckpointThatThereIs) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_checkpoint()->set_every_steps(10);
  options_.checkpoint_clock = 40;
  ASSERT_EQ(Run(spec, 20), absl::OkStatus());
  EXPECT_THAT(strategy_->cuts(), IsEmpty());
}

TEST_F(TrainerTest, ReachingTheTargetStopsAndKeepsTheResult) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(10);
  coordinator_.OnEvaluation([](const v1::ReportEvaluationRequest& share) {
    v1::ReportEvaluationReply reply;
    reply.set_stop(share.clock() >= 20);
    return reply;
  });
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(EvaluatedClocks(), ElementsAre(10, 20));
  EXPECT_THAT(strategy_->cuts(), ElementsAre(20));
}

TEST_F(TrainerTest, TheWeightsAreCommittedBeforeTheLastEvaluation) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(20);
  std::vector<size_t> committed;
  coordinator_.OnEvaluation(
      [&](const v1::ReportEvaluationRequest& share) -> absl::StatusOr<v1::ReportEvaluationReply> {
        committed.push_back(committed_.size());
        if (share.clock() == 40) return absl::InvalidArgumentError("the metric cannot be computed");
        return v1::ReportEvaluationReply();
      });
  EXPECT_EQ(Run(spec).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(committed, ElementsAre(0, 1));
  EXPECT_THAT(strategy_->cuts(), ElementsAre(40));
}

TEST_F(TrainerTest, AJobThatOnlyEvaluatesKeepsNothing) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_data()->set_holdout(1);
  spec.clear_stop();
  spec.mutable_stop()->set_evaluate_only(true);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(EvaluatedClocks(), ElementsAre(0));
  EXPECT_EQ(coordinator_.evaluations()[0].examples(), 600);
  EXPECT_THAT(strategy_->cuts(), IsEmpty());
  // What the process has used.
  for (const v1::ReportProgressRequest& report : coordinator_.progress()) {
    EXPECT_EQ(report.steps(), 0);
  }
}

TEST_F(TrainerTest, WithoutHeldOutDataNothingIsEvaluated) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_data()->set_holdout(0);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(EvaluatedClocks(), IsEmpty());
  EXPECT_THAT(strategy_->cuts(), ElementsAre(40));
}

}  // namespace
}  // namespace muster
