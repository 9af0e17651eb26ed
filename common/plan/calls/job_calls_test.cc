#include "common/plan/calls/job_calls.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/job/validation/job_validator.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/calls/step_traffic.h"
#include "common/plan/memory/plan_jobs_for_testing.h"
#include "common/plan/ranks/rank_size.h"
#include "common/plan/size/model_size.h"
#include "common/step/shares.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

// Returns a job of so many blocks, with its defaults.
v1::JobSpec JobOfBlocks(uint32_t blocks, const std::string& rest) {
  v1::JobSpec spec =
      Job("model { transformer { layers: 1 width: 64 heads: 8 context: 16 } } "
          "data { sequences { path: 't' } } optimizer { name: 'adamw' learning_rate: 0.1 } "
          "update { dense: ALL_REDUCE sparse: ALL_REDUCE } " +
          rest);
  spec.mutable_model()->mutable_transformer()->set_layers(blocks);
  FillDefaults(spec);
  return spec;
}

JobCalls CallsOf(const v1::JobSpec& spec) {
  return JobCalls::Create(PlannedSchema(spec, SizeOfModel(spec, SizeOfData(spec.data()))), spec,
                          CallRoad::kAllReduce)
      .value();
}

// Sums the calls of a step of a stage's mean rank, whose micro-batches are all recorded.
AxisTraffic Recorded(const v1::JobSpec& spec, int stage) {
  const JobCalls job = CallsOf(spec);
  const BatchDivision batch = {.batch_size = spec.batch_size(),
                               .data_ranks = SizeAlong(kDataAxes, spec),
                               .job_data_ranks = SizeAlong(kDataAxes, spec),
                               .micro_batches = spec.micro_batches()};
  StepToRecord step;
  for (int64_t i = 0; i < batch.micro_batches; ++i) {
    step.examples.push_back(batch.MicroBatch(/*data_rank=*/0, i).size());
  }
  const int rank = job.division().mesh.Move(0, Axis::kPipeline, stage);
  CallBytes bytes(AllReduceWay::kSharedMemory);
  AxisTraffic sum;
  for (const StepCall& call : RankCalls::Create(job, rank).value()->Record(step).calls) {
    if (call.among == Axes().Others()) continue;
    WorkerTraffic& part = call.among == Axis::kPipeline ? sum.pipeline
                          : call.among == Axis::kTensor ? sum.tensor
                                                        : sum.data;
    part += bytes.Of(call, absl::nullopt);
  }
  return sum;
}

// Among many micro-batches, those that differ are recorded.
TEST(JobCallsTest, AFewMicroBatchesStandForAll) {
  for (const std::string parallelism :
       {"workers: 2 ", "workers: 2 parallelism { zero { stage: 1 } }",
        "workers: 2 parallelism { zero { stage: 2 } }",
        "workers: 2 parallelism { zero { stage: 3 } }",
        "workers: 2 parallelism { zero { stage: 3 keep_gathered_bytes: 450000 } }",
        "workers: 4 parallelism { pipeline: 2 }",
        "workers: 4 parallelism { pipeline: 2 pipeline_schedule: INTERLEAVED zero { stage: 1 } }",
        "workers: 4 parallelism { pipeline: 2 pipeline_schedule: ZERO_BUBBLE }",
        "workers: 4 parallelism { tensor: 2 zero { stage: 2 } }"}) {
    SCOPED_TRACE(parallelism);
    // Each data rank has 5 micro-batches of 3 examples, and 7 of 2.
    const v1::JobSpec spec =
        JobOfBlocks(6, parallelism + " batch_size: 58 micro_batches: 12 stop { steps: 2 }");
    ASSERT_EQ(ValidateJob(spec), absl::OkStatus());
    const auto mean =
        PredictMeanTraffic(PlannedSchema(spec, SizeOfModel(spec, SizeOfData(spec.data()))), spec,
                           CallRoad::kAllReduce, AllReduceWay::kSharedMemory);
    ASSERT_TRUE(mean.ok()) << mean.status();
    for (size_t stage = 0; stage < mean->size(); ++stage) {
      const AxisTraffic all = Recorded(spec, static_cast<int>(stage));
      EXPECT_DOUBLE_EQ((*mean)[stage].pipeline.sent, all.pipeline.sent);
      EXPECT_DOUBLE_EQ((*mean)[stage].pipeline.received, all.pipeline.received);
      EXPECT_DOUBLE_EQ((*mean)[stage].tensor.sent, all.tensor.sent);
      // The first rank of a layer has some tensors alone.
      if (SizeAlong(Axis::kTensor, spec) == 1) {
        EXPECT_DOUBLE_EQ((*mean)[stage].data.sent, all.data.sent);
      }
    }
  }
}

// A step of a large model is recorded in as many operations as it has actions and calls: ten calls
// of a block in its tensor group, and of each unit a gather, a scatter and a sum of its norms.
TEST(JobCallsTest, ALargeModelHasAFewCallsForEachUnit) {
  constexpr uint64_t kBlocks = 126;
  const v1::JobSpec spec = JobOfBlocks(
      kBlocks, "workers: 64 batch_size: 64 parallelism { tensor: 8 zero { stage: 1 } }");
  const JobCalls job = CallsOf(spec);
  const auto rank = RankCalls::Create(job, /*rank=*/0);
  ASSERT_TRUE(rank.ok()) << rank.status();
  const RecordedStep step = (*rank)->Record({.examples = {8}, .shard = 0});
  EXPECT_LE(step.calls.size(), 13 * kBlocks + 30);
  EXPECT_LE(step.actions.size(), 7 * kBlocks + 40);
}

}  // namespace
}  // namespace muster
