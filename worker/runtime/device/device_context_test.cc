// Tests that context ranks on emulated devices make the steps of one rank on whole sequences.
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/runtime/device/device_jobs_for_testing.h"

namespace muster {
namespace {

constexpr int64_t kContextLength = 12;

// With learned positions, of two blocks for a pipeline's stages, and with rotary ones.
const char kLearnedByContext[] =
    "layers: 2 width: 16 heads: 2 context: 12 dropout: 0.1 attention_dropout: 0.1 vocabulary: 29";
const char kRotaryByContext[] =
    "layers: 1 width: 16 heads: 2 kv_heads: 1 context: 12 norm: RMS_NORM positions: ROTARY "
    "activation: SWIGLU feed_forward: 24 no_biases: true separate_head: true vocabulary: 29 "
    "pad_vocabulary_to: 8";

DeviceTestJob OneRank(const char* transformer, int micro_batches) {
  return {.micro_batches = micro_batches,
          .transformer = transformer,
          .max_norm = 0.3,
          .length = kContextLength};
}

// The job of these context ranks, each of which has the micro-batches of one rank.
DeviceTestJob SharedOut(DeviceTestJob job, int context, const char* exchange) {
  job.ranks = job.context = context;
  job.exchange = exchange;
  return job;
}

void ExpectStepsOfOneRank(const DeviceTestJob& job, const DeviceTestJob& alone, double bound) {
  SCOPED_TRACE(SpecOf(job).ShortDebugString());
  const Trained& joined = TrainOnce(alone);
  const Trained trained = Train(job);
  ExpectNear(trained, joined, bound);
  for (size_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(trained.norms[step], joined.norms[step], bound * joined.norms[step]) << step;
  }
  EXPECT_GT(trained.tensor_bytes_sent, 0);
}

void ExpectStepsOfOneRank(const DeviceTestJob& alone, int context, const char* exchange) {
  ExpectStepsOfOneRank(SharedOut(alone, context, exchange), alone, 1e-5);
}

TEST(DeviceContextTest, RanksMakeTheStepsOfOne) {
  ExpectStepsOfOneRank(OneRank(kLearnedByContext, 2), 2, "RING");
  ExpectStepsOfOneRank(OneRank(kRotaryByContext, 1), 3, "RING");
}

TEST(DeviceContextTest, RanksMakeTheStepsOfOneExhaustive) {
  for (const char* const exchange : {"RING", "GATHER"}) {
    ExpectStepsOfOneRank(OneRank(kLearnedByContext, 2), 3, exchange);
  }
  for (const char* const exchange : {"RING", "GATHER", "HEADS"}) {
    ExpectStepsOfOneRank(OneRank(kRotaryByContext, 3), 2, exchange);
  }
}

void ExpectDataAndTensorRanksUnderZero(uint32_t stage, const char* exchange) {
  const DeviceTestJob alone = OneRank(kRotaryByContext, 2);
  DeviceTestJob job = SharedOut(alone, 2, exchange);
  job.ranks = 8;
  job.tensor = 2;
  job.stage = stage;
  job.sequence = stage == 3;
  job.micro_batches = 1;
  ExpectStepsOfOneRank(job, alone, 1e-5);
}

TEST(DeviceContextTest, DataAndTensorRanksMakeTheStepsOfOneUnderZero) {
  ExpectDataAndTensorRanksUnderZero(3, "RING");
}

TEST(DeviceContextTest, DataAndTensorRanksMakeTheStepsOfOneUnderZeroExhaustive) {
  ExpectDataAndTensorRanksUnderZero(1, "GATHER");
  ExpectDataAndTensorRanksUnderZero(2, "RING");
}

TEST(DeviceContextTest, StagesOfAPipelineMakeTheStepsOfOne) {
  const DeviceTestJob alone = OneRank(kLearnedByContext, 2);
  DeviceTestJob job = SharedOut(alone, 2, "GATHER");
  job.ranks = 4;
  job.pipeline = 2;
  ExpectStepsOfOneRank(job, alone, 1e-5);
}

TEST(DeviceContextTest, PackedDocumentsAreThoseOfOneRank) {
  DeviceTestJob alone = OneRank(kLearnedByContext, 1);
  alone.packed = true;
  ExpectStepsOfOneRank(alone, 2, "RING");
  ExpectStepsOfOneRank(alone, 2, "HEADS");
}

// Context ranks round the gradients of queries once more, and those of keys and values, than one
// rank does.
TEST(DeviceContextTest, SixteenBitTypesAreNear) {
  DeviceTestJob alone = OneRank(kRotaryByContext, 1);
  alone.type = "BF16";
  alone.compute = "recompute: FULL";
  ExpectStepsOfOneRank(SharedOut(alone, 2, "GATHER"), alone, 1e-2);
}

}  // namespace
}  // namespace muster
