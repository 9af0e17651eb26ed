// Tests that jobs with experts make on emulated devices the steps of one rank.
#include <cstdint>

#include "gtest/gtest.h"
#include "worker/runtime/device/device_jobs_for_testing.h"

namespace muster {
namespace {

// A dense block, and one of experts with all that there may be on devices.
const char kWithExperts[] =
    "layers: 2 width: 16 heads: 2 context: 12 norm: RMS_NORM positions: ROTARY activation: SWIGLU "
    "feed_forward: 24 no_biases: true separate_head: true vocabulary: 29 pad_vocabulary_to: 8 moe "
    "{ "
    "experts: 4 top_k: 2 expert_width: 12 shared_width: 8 shared_gate: true dense_layers: 0 "
    "normalize: true auxiliary_loss: 0.1 z_loss: 0.01 }";

DeviceTestJob JobWithExperts(int micro_batches) {
  return {
      .micro_batches = micro_batches, .transformer = kWithExperts, .max_norm = 0.3, .length = 12};
}

void ExpectStepsOfOneProcess(const DeviceTestJob& job) {
  SCOPED_TRACE(SpecOf(job).ShortDebugString());
  const Trained& alone = TrainOnce(JobWithExperts(1));
  const Trained trained = Train(job);
  ExpectNear(trained, alone, 1e-5);
  for (size_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(trained.norms[step], alone.norms[step], 1e-5 * alone.norms[step]) << step;
  }
}

TEST(DeviceExpertsTest, RanksMakeTheStepsOfOne) {
  DeviceTestJob data = JobWithExperts(2);
  data.ranks = 2;
  data.stage = 3;
  ExpectStepsOfOneProcess(data);
  DeviceTestJob tensor = JobWithExperts(1);
  tensor.ranks = tensor.tensor = 2;
  ExpectStepsOfOneProcess(tensor);
  DeviceTestJob context = JobWithExperts(1);
  context.ranks = context.context = 2;
  ExpectStepsOfOneProcess(context);
}

TEST(DeviceExpertsTest, StagesMakeTheStepsOfOneExhaustive) {
  for (const char* const schedule : {"ONE_F_ONE_B", "ZERO_BUBBLE"}) {
    DeviceTestJob stages = JobWithExperts(2);
    stages.ranks = stages.pipeline = 2;
    stages.schedule = schedule;
    ExpectStepsOfOneProcess(stages);
  }
}

// No product has an activation function in it, so what is made again has the same bits.
TEST(DeviceExpertsTest, RecomputationEndsInTheSameBits) {
  DeviceTestJob job = JobWithExperts(1);
  const Trained& expected = TrainOnce(job);
  for (const char* const recompute : {"recompute: SELECTIVE", "recompute: FULL"}) {
    job.compute = recompute;
    EXPECT_EQ(Train(job).weights, expected.weights) << recompute;
  }
}

}  // namespace
}  // namespace muster
