// `kill -9` of a pipeline's stages at named calls: in forward, in backward, when the step ends, and
// between a step and its checkpoint. By all-reduce another task takes the stage's state from a peer
// on the same stage; without one the job goes back to its last checkpoint. On servers every stage
// is replaced in place. The job goes on with exactly the weights of a run that nothing disturbed.

#include <signal.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/recovery/dying_job.h"
#include "tests/recovery/small_transformer_job.h"

namespace muster {
namespace {

struct Shape {
  uint32_t stages = 2;
  uint32_t data = 1;
  uint32_t tensor = 1;
};

v1::JobSpec StagesJob(v1::UpdateSpec::Road road, const Shape& shape) {
  v1::JobSpec spec = SmallTransformerJob(road);
  spec.set_workers(shape.stages * shape.data * shape.tensor);
  spec.set_batch_size(4 * shape.data);
  spec.mutable_parallelism()->set_pipeline(shape.stages);
  spec.mutable_parallelism()->set_tensor(shape.tensor);
  // A test waits for some checkpoints after each loss.
  spec.mutable_checkpoint()->set_every_steps(5);
  return spec;
}

struct Point {
  uint32_t slot;
  const char* call;
};

class PipelineInPlaceTest : public ::testing::TestWithParam<Deaths> {};

// Under ZeRO stage 0 the state comes from the peer on the same stage, otherwise from a copy.
TEST_P(PipelineInPlaceTest, StagesGoOnInPlaceWhereverATaskDies) {
  v1::JobSpec spec = StagesJob(v1::UpdateSpec::ALL_REDUCE, {.data = 2});
  if (GetParam().stage > 0) {
    spec.mutable_parallelism()->mutable_zero()->set_stage(GetParam().stage);
    spec.mutable_parallelism()->mutable_zero()->set_redundancy(1);
  }
  DyingJob job;
  ASSERT_NO_FATAL_FAILURE(job.Start(spec));
  // The points are of the first stage, and of the last one.
  const Point points[] = {{0, "before outputs to a stage"},
                          {1, "before gradients from a stage"},
                          {0, "after gradients of both stages"},
                          {1, "after examples and overflows"},
                          {0, "before files of cuts"},
                          {3, "before outputs from a stage"},
                          {2, "before gradients to a stage"},
                          {3, "before gradients of both stages"},
                          {2, "before examples and overflows"},
                          {3, "before copies of the cut"},
                          {1, "after copies of the cut"},
                          {2, "before lengths of cuts"},
                          {0, "after files of cuts"}};
  for (size_t i = GetParam().first; i < std::size(points); i += GetParam().of) {
    ASSERT_NO_FATAL_FAILURE(job.DieAt(points[i].slot, points[i].call));
  }
  job.ExpectTheSameBits();
}

INSTANTIATE_TEST_SUITE_P(ZeroStages, PipelineInPlaceTest,
                         ::testing::Values(Deaths{0, 0, 3}, Deaths{1, 1, 3}, Deaths{2, 2, 3}));
INSTANTIATE_TEST_SUITE_P(ExhaustiveZeroStages, PipelineInPlaceTest,
                         ::testing::Values(Deaths{0}, Deaths{1}, Deaths{2}));

// Nobody else has what a stage without a peer has.
TEST(LoneStageTest, ALossTakesTheJobBackToItsCheckpoint) {
  DyingJob job;
  ASSERT_NO_FATAL_FAILURE(job.Start(StagesJob(v1::UpdateSpec::ALL_REDUCE, {})));
  for (const uint32_t slot : {0, 1}) {
    SCOPED_TRACE(slot);
    const v1::JobStatus before = job.Status();
    ASSERT_NO_FATAL_FAILURE(job.Kill({slot}));
    ASSERT_NO_FATAL_FAILURE(job.AwaitReturn(before));
  }
  job.ExpectTheSameBits();
}

// Slots 0 and 1 are tensor ranks of the first stage.
TEST(TensorStagesTest, ALossTakesTheJobBackToItsCheckpointWhereverATaskDies) {
  DyingJob job;
  ASSERT_NO_FATAL_FAILURE(job.Start(StagesJob(v1::UpdateSpec::ALL_REDUCE, {.tensor = 2})));
  for (const Point& point :
       {Point{1, "before tensor rows"}, Point{0, "before outputs to a stage"},
        Point{2, "before gradients to a stage"}, Point{3, "after sums of tensor rows"},
        Point{1, "before gradients of both stages"}, Point{3, "after examples and overflows"},
        Point{2, "before files of cuts"}, Point{3, "after copies of the cut"}}) {
    ASSERT_NO_FATAL_FAILURE(job.DieAt(point.slot, point.call, DyingJob::Loss::kOfSteps));
  }
  job.ExpectTheSameBits();
}

// The stage at whose calls its task dies, each n-th of them.
class ServedStagesTest : public ::testing::TestWithParam<std::tuple<uint32_t, size_t>> {
 protected:
  static std::vector<Point> Points() {
    switch (std::get<0>(GetParam())) {
      case 0:
        return {{0, "before outputs to a stage"},
                {0, "before gradients from a stage"},
                {0, "before tied gradients"},
                {0, "after push"},
                {0, "after close"},
                {0, "before clip"},
                {0, "after clip"},
                {0, "before take of the cut"},
                {0, "after take of the cut"},
                {0, "after write of the cut"}};
      case 1:
        return {{1, "before outputs from a stage"},
                {1, "before gradients to a stage"},
                {1, "before push"},
                {1, "after push"},
                {1, "before close"},
                {1, "before take of the cut"}};
      default:
        return {{2, "before outputs from a stage"},
                {2, "before gradients to a stage"},
                {2, "before tied gradients"},
                {2, "before push"},
                {2, "after close"},
                {2, "before take of the cut"},
                {2, "after take of the cut"}};
    }
  }
};

// Servers are lost, too.
TEST_P(ServedStagesTest, StagesGoOnInPlaceWhereverATaskDies) {
  v1::JobSpec spec = StagesJob(v1::UpdateSpec::PARAMETER_SERVER, {.stages = 3});
  spec.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  DyingJob job;
  ASSERT_NO_FATAL_FAILURE(job.Start(spec, /*servers=*/1));
  const std::vector<Point> points = Points();
  for (size_t i = 0; i < points.size(); i += std::get<1>(GetParam())) {
    ASSERT_NO_FATAL_FAILURE(job.DieAt(points[i].slot, points[i].call));
  }
  const v1::JobStatus before = job.Status();
  job.cluster().Kill("server-0", SIGKILL);
  ASSERT_TRUE(job.cluster().Restart("server-0").ok());
  ASSERT_NO_FATAL_FAILURE(job.AwaitTasks(before, 0));
  job.ExpectTheSameBits();
}

INSTANTIATE_TEST_SUITE_P(Stages, ServedStagesTest,
                         ::testing::Combine(::testing::Values(0, 1, 2), ::testing::Values(2)));
INSTANTIATE_TEST_SUITE_P(ExhaustiveStages, ServedStagesTest,
                         ::testing::Combine(::testing::Values(0, 1, 2), ::testing::Values(1)));

}  // namespace
}  // namespace muster
