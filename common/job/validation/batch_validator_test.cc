#include "common/job/validation/batch_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/job/test_jobs.h"
#include "common/job/validation/job_validator.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::JobSpec Ramp(v1::JobSpec spec, const std::vector<std::pair<uint64_t, uint32_t>>& changes) {
  for (const auto& [step, batch_size] : changes) {
    v1::BatchChange& change = *spec.add_batch_changes();
    change.set_step(step);
    change.set_batch_size(batch_size);
  }
  return spec;
}

void ExpectRefused(const v1::JobSpec& spec, const std::string& a, const std::string& b) {
  const absl::Status status = ValidateJob(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(a), HasSubstr(b)));
}

TEST(BatchValidatorTest, TakesRampsOnEitherRoad) {
  for (const v1::JobSpec& job : {SmallJob(), AllReduceJob(), HybridJob()}) {
    EXPECT_EQ(ValidateJob(Ramp(job, {{2, 4}, {5, 16}})), absl::OkStatus());
  }
}

TEST(BatchValidatorTest, StepsAreInOrder) {
  ExpectRefused(Ramp(SmallJob(), {{0, 4}}), "batch_changes[0].step is 0",
                "the one before, which is 0 (where batch_size begins)");
  ExpectRefused(Ramp(SmallJob(), {{3, 4}, {3, 8}}), "batch_changes[1].step is 3",
                "the one before, which is 3");
}

TEST(BatchValidatorTest, EveryBatchHasExamplesForAllRanksAndMicroBatches) {
  ExpectRefused(Ramp(SmallJob(), {{3, 4}, {5, 1}}), "batch_changes[1].batch_size is 1",
                "data ranks, which are 2");
  v1::JobSpec spec = Ramp(SmallJob(), {{3, 6}});
  spec.set_micro_batches(4);
  ExpectRefused(spec, "micro_batches is 4", "3 of its 6 examples");
}

TEST(BatchValidatorTest, TheRateFollowsBatchesUnderBsp) {
  v1::JobSpec spec = Ramp(SmallJob(), {{3, 16}});
  spec.mutable_schedule()->set_scaling("linear");
  spec.mutable_schedule()->set_base_batch_size(8);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.mutable_update()->set_staleness_bound(2);
  ExpectRefused(spec, "schedule.scaling is \"linear\"", "batch_changes");
}

TEST(BatchValidatorTest, BatchesGrowWhereTheNoiseScaleIsKnown) {
  const auto adaptive = [](v1::JobSpec spec) {
    spec.mutable_adaptive_batch()->set_max_batch_size(64);
    return spec;
  };
  EXPECT_EQ(ValidateJob(adaptive(SmallJob())), absl::OkStatus());
  EXPECT_EQ(ValidateJob(adaptive(AllReduceJob())), absl::OkStatus());
  v1::JobSpec spec = adaptive(SmallJob());
  spec.set_workers(1);
  ExpectRefused(spec, "adaptive_batch is set", "set micro_batches to 2 or more");
  spec.set_micro_batches(2);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.mutable_adaptive_batch()->set_max_batch_size(8);
  ExpectRefused(spec, "adaptive_batch.max_batch_size is 8", "above batch_size, 8");
  ExpectRefused(adaptive(Ramp(SmallJob(), {{3, 16}})), "adaptive_batch is set", "batch_changes");
  ExpectRefused(adaptive(HybridJob()), "adaptive_batch is set", "sparse tables");
  spec = adaptive(SmallJob());
  spec.mutable_update()->set_staleness_bound(2);
  ExpectRefused(spec, "adaptive_batch is set", "staleness_bound");
  spec = adaptive(SmallJob());
  spec.mutable_stop()->clear_steps();
  spec.mutable_stop()->set_epochs(2);
  ExpectRefused(spec, "adaptive_batch is set", "stop.steps");
  ExpectRefused(adaptive(ProgramJob()), "adaptive_batch is set", "runs a program");
}

TEST(BatchValidatorTest, AJobWhoseBatchesGrowMeasuresTheNorm) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_adaptive_batch()->set_max_batch_size(64);
  FillDefaults(spec);
  EXPECT_TRUE(spec.clipping().measure_norm());
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
}

TEST(BatchValidatorTest, BatchesScaleWhereWorkersComeAndGo) {
  v1::JobSpec job = AllReduceJob();
  job.set_min_workers(1);
  job.set_max_workers(4);
  job.set_scale_batch(true);
  EXPECT_EQ(ValidateJob(job), absl::OkStatus());
  v1::JobSpec spec = job;
  // Each rank has its share of the batch, however many there are.
  spec.set_batch_size(2 * spec.workers());
  spec.set_max_workers(64);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.set_batch_size(1u << 31);
  spec.mutable_stop()->set_steps(1);
  ExpectRefused(spec, "scale_batch is true", "lower batch_size or max_workers");
  spec = job;
  spec.clear_min_workers();
  spec.clear_max_workers();
  ExpectRefused(spec, "scale_batch is true", "min_workers is not set");
  ExpectRefused(Ramp(job, {{3, 16}}), "scale_batch is true", "batch_changes");
  spec = job;
  spec.mutable_adaptive_batch()->set_max_batch_size(64);
  ExpectRefused(spec, "scale_batch is true", "adaptive_batch");
  spec = job;
  spec.mutable_stop()->clear_steps();
  spec.mutable_stop()->set_epochs(2);
  ExpectRefused(spec, "scale_batch is true", "stop.steps");
  spec = ProgramJob();
  spec.set_scale_batch(true);
  ExpectRefused(spec, "scale_batch is set", "runs a program");
}

TEST(BatchValidatorTest, ProgramsHaveNoBatches) {
  ExpectRefused(Ramp(ProgramJob(), {{3, 16}}), "batch_changes is set", "runs a program");
}

}  // namespace
}  // namespace muster
