#include <cmath>

#include "common/tensor/bfloat16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "worker/strategy/local_strategy_for_testing.h"
#include "worker/strategy/row_keys_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::FloatEq;
using ::testing::Pointwise;

v1::TablesSchema Schema() {
  v1::TablesSchema schema;
  v1::TensorSchema* tensor = schema.add_tensors();
  tensor->set_name("w");
  tensor->add_shape(2);
  tensor->mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
  tensor->mutable_initializer()->set_value(1);
  v1::SparseTableSchema* table = schema.add_sparse();
  table->set_name("rows");
  table->set_dim(2);
  table->mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
  table->mutable_initializer()->set_value(2);
  schema.set_partitions(2);
  schema.set_block_bytes(1024);
  schema.mutable_optimizer()->set_name("sgd");
  schema.mutable_optimizer()->set_learning_rate(0.5);
  schema.set_total_steps(10);
  return schema;
}

// One step with the same gradients each time.
void Step(LocalStrategy& strategy, uint64_t clock, MicroBatch& batch) {
  ASSERT_EQ(strategy.BeginStep(clock), absl::OkStatus());
  ASSERT_EQ(strategy.LookUp(batch), absl::OkStatus());
  ASSERT_EQ(strategy.BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
  strategy.gradients()[0][0] = 8;
  strategy.gradients()[0][1] = -4;
  batch.sparse[0].gradients = {4, 0, 0, 12};
  ASSERT_EQ(strategy.GradientReady(0), absl::OkStatus());
  ASSERT_EQ(strategy.PushRows(batch), absl::OkStatus());
  ASSERT_EQ(strategy.EndStep(), absl::OkStatus());
}

MicroBatch Batch() {
  MicroBatch batch;
  batch.sparse.resize(1);
  batch.sparse[0].keys = {7, 5};
  return batch;
}

TEST(LocalStrategyTest, StepsByTheMeanGradient) {
  auto strategy = LocalStrategy::Create(Schema()).value();
  EXPECT_EQ(strategy->Start().value(), 0);
  MicroBatch batch = Batch();
  Step(*strategy, 0, batch);
  EXPECT_THAT(batch.sparse[0].rows, ElementsAre(2, 2, 2, 2));
  // The mean of 8 over 4 examples is 2; half of that is taken off.
  EXPECT_THAT(strategy->state().parameters()[0], ElementsAre(0, 1.5));
  ASSERT_EQ(strategy->LookUp(batch), absl::OkStatus());
  EXPECT_THAT(batch.sparse[0].rows, ElementsAre(1.5, 2, 2, 0.5));
  EXPECT_THAT(KeysOf(strategy->state(), 0), ElementsAre(5, 7));
}

// Neither weights, nor momentum, nor decay.
TEST(LocalStrategyTest, AStepThatOverflowsChangesNothing) {
  v1::TablesSchema schema = Schema();
  schema.clear_sparse();
  schema.mutable_optimizer()->set_name("momentum");
  schema.mutable_optimizer()->set_momentum(0.5);
  schema.mutable_optimizer()->set_weight_decay(0.1);
  v1::ComputeSpec compute;
  compute.set_type(v1::ComputeSpec::F16);
  const auto run = [&](int overflows) {
    auto strategy = LocalStrategy::Create(schema, LossScaling(compute, {})).value();
    for (int clock = 0; clock < 4; ++clock) {
      EXPECT_EQ(strategy->BeginStep(clock), absl::OkStatus());
      EXPECT_EQ(strategy->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
      strategy->gradients()[0][0] = 8 * strategy->loss_scale();
      strategy->gradients()[0][1] = clock == overflows ? INFINITY : 0;
      EXPECT_EQ(strategy->GradientReady(0), absl::OkStatus());
      EXPECT_EQ(strategy->EndStep(), absl::OkStatus());
    }
    EXPECT_EQ(strategy->state().clock(), 4);
    EXPECT_EQ(strategy->loss_scale(), overflows < 0 ? 4096 : 2048);
    const auto weights = strategy->state().weights();
    return std::vector<float>(weights.begin(), weights.end());
  };
  const std::vector<float> without_last = run(3);
  EXPECT_EQ(run(0), without_last);
  EXPECT_EQ(run(2), without_last);
  EXPECT_NE(run(-1), without_last);
}

TEST(LocalStrategyTest, MicroBatchesAddUp) {
  auto strategy = LocalStrategy::Create(Schema()).value();
  ASSERT_EQ(strategy->BeginStep(0), absl::OkStatus());
  MicroBatch first = Batch();
  first.sparse[0].gradients = {4, 0, 0, 8};
  MicroBatch second;
  second.sparse.resize(1);
  second.sparse[0].keys = {5};
  second.sparse[0].gradients = {0, 4};
  for (MicroBatch* batch : {&first, &second}) {
    const bool last = batch == &second;
    ASSERT_EQ(strategy->LookUp(*batch), absl::OkStatus());
    ASSERT_EQ(strategy->BeforeBackward(last ? 3 : 1,
                                       last ? SeriesPosition::kLast : SeriesPosition::kMoreFollow),
              absl::OkStatus());
    if (strategy->GradientStore(0) == Accumulation::kWrite) {
      strategy->gradients()[0][0] = 2;
      strategy->gradients()[0][1] = -2;
    } else {
      strategy->gradients()[0][0] += 6;
      strategy->gradients()[0][1] -= 2;
    }
    ASSERT_EQ(strategy->GradientReady(0), absl::OkStatus());
    ASSERT_EQ(strategy->PushRows(*batch), absl::OkStatus());
  }
  ASSERT_EQ(strategy->EndStep(), absl::OkStatus());
  // As StepsByTheMeanGradient: the same sums over the same four examples.
  EXPECT_THAT(strategy->state().parameters()[0], ElementsAre(0, 1.5));
  ASSERT_EQ(strategy->LookUp(first), absl::OkStatus());
  EXPECT_THAT(first.sparse[0].rows, ElementsAre(1.5, 2, 2, 0.5));
}

TEST(LocalStrategyTest, AUnitIsAcquiredWithTheRoundedWeightsOfItsClock) {
  v1::TablesSchema schema = Schema();
  schema.mutable_tensors(0)->set_compute(v1::UpdateSpec::BF16);
  auto strategy = LocalStrategy::Create(schema).value();
  MicroBatch batch = Batch();
  for (const std::vector<float>& expected : {std::vector<float>{1, 1}, {0, 1.5}, {-1, 2}}) {
    const uint64_t clock = strategy->state().clock();
    ASSERT_EQ(strategy->BeginStep(clock), absl::OkStatus());
    ASSERT_EQ(strategy->Acquire(0, Direction::kForward), absl::OkStatus());
    const ModelParameters parameters = strategy->parameters();
    EXPECT_THAT(parameters.values[0], ElementsAreArray(expected));
    const auto* rounded = static_cast<const BFloat16*>(parameters.rounded[0]);
    EXPECT_THAT(std::vector<float>({ToFloat(rounded[0]), ToFloat(rounded[1])}),
                ElementsAreArray(expected));
    strategy->Release(0, Direction::kForward);
    Step(*strategy, clock, batch);
  }
}

TEST(LocalStrategyTest, RefusesAClockThatIsNotTheNext) {
  auto strategy = LocalStrategy::Create(Schema()).value();
  EXPECT_EQ(strategy->BeginStep(1).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(LocalStrategyTest, ClipsByTheNormOverEverything) {
  v1::TablesSchema schema = Schema();
  schema.mutable_clipping()->set_by_global_norm(0.5);
  auto strategy = LocalStrategy::Create(schema).value();
  MicroBatch batch = Batch();
  Step(*strategy, 0, batch);
  // Means 2, -1, 1, 3: norm sqrt(15).
  const float step = 0.5 * 0.5 / std::sqrt(15.0);
  EXPECT_THAT(strategy->state().parameters()[0],
              Pointwise(FloatEq(), std::vector<float>{1 - 2 * step, 1 + step}));
}

TEST(LocalStrategyTest, FollowsTheSchedule) {
  v1::TablesSchema schema = Schema();
  schema.mutable_schedule()->set_name("step");
  schema.mutable_schedule()->set_period(1);
  schema.mutable_schedule()->set_factor(0.5);
  auto strategy = LocalStrategy::Create(schema).value();
  MicroBatch batch = Batch();
  Step(*strategy, 0, batch);
  Step(*strategy, 1, batch);
  EXPECT_THAT(strategy->state().parameters()[0], ElementsAre(-0.5, 1.75));
}

TEST(LocalStrategyTest, RefusesASchemaThatIsNotValid) {
  v1::TablesSchema schema = Schema();
  schema.mutable_optimizer()->set_name("unheard-of");
  EXPECT_EQ(LocalStrategy::Create(schema).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster
