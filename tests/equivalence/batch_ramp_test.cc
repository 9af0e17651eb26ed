// A job whose batches change trains as one process does with the same batches, on either road and
// every mesh, and goes on across a change as if it had not been interrupted.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/run_checkpoints.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

v1::JobSpec WithRamp(v1::JobSpec spec) {
  spec.mutable_stop()->set_steps(12);
  spec.clear_batch_changes();
  const uint32_t first = spec.batch_size();
  for (const auto& [step, batch_size] :
       {std::pair<uint64_t, uint32_t>(3, first + 5), {7, 2 * first}, {9, first / 2 + 1}}) {
    v1::BatchChange& change = *spec.add_batch_changes();
    change.set_step(step);
    change.set_batch_size(batch_size);
  }
  return spec;
}

class BatchRampTest : public ::testing::TestWithParam<std::string> {
 protected:
  v1::JobSpec Job() {
    v1::JobSpec spec = WithRamp(TinyJob(GetParam(), "momentum", WriteTinyText(folder_)));
    spec.mutable_update()->set_deterministic(true);
    spec.mutable_clipping()->set_by_global_norm(0.5);
    spec.set_micro_batches(2);
    return spec;
  }

  const TempFolder folder_;
};

TEST_P(BatchRampTest, TrainsAsOneProcess) {
  const v1::JobSpec spec = Job();
  const TrainedValues alone = TrainLocally(spec);
  RunOptions options;
  options.keys = alone.keys;
  ExpectClose(TrainOnServers(spec, options).trained[0], alone, 1e-5);
  v1::JobSpec all_reduce = ByAllReduceInSmallBuckets(spec);
  ExpectClose(TrainByAllReduce(all_reduce, options).trained[0], alone, 1e-5);
  all_reduce.mutable_parallelism()->mutable_zero()->set_stage(2);
  ExpectClose(TrainByAllReduce(all_reduce, options).trained[0], alone, 1e-5);
  // The rate follows the batch on either road, as if the schedule had said so.
  v1::JobSpec scaled = spec;
  scaled.mutable_schedule()->set_scaling("linear");
  scaled.mutable_schedule()->set_base_batch_size(spec.batch_size());
  v1::JobSpec points = spec;
  points.mutable_schedule()->set_name("piecewise_constant");
  for (const v1::BatchChange& change : spec.batch_changes()) {
    v1::SchedulePoint& point = *points.mutable_schedule()->add_points();
    point.set_step(change.step());
    point.set_factor(static_cast<float>(change.batch_size()) /
                     static_cast<float>(spec.batch_size()));
  }
  const TrainedValues by_points = TrainLocally(points);
  EXPECT_NE(by_points.values, alone.values);
  ExpectClose(TrainLocally(scaled), by_points, 1e-5);
  ExpectClose(TrainOnServers(scaled, options).trained[0], by_points, 1e-5);
  ExpectClose(TrainByAllReduce(ByAllReduceInSmallBuckets(scaled), options).trained[0], by_points,
              1e-5);
  // The ramp counts.
  v1::JobSpec even = spec;
  even.clear_batch_changes();
  EXPECT_NE(TrainLocally(even).values, alone.values);
}

TEST_P(BatchRampTest, GoesOnAcrossAChange) {
  v1::JobSpec spec = ByAllReduceInSmallBuckets(Job());
  spec.mutable_checkpoint()->set_every_steps(6);
  RunCheckpoints checkpoints;
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  options.checkpoints = &checkpoints;
  const TrainedValues undisturbed = TrainByAllReduce(spec, options).trained[0];
  options.from = 6;
  EXPECT_EQ(TrainByAllReduce(spec, options).trained[0].values, undisturbed.values);
  options.from = 0;
  // At the end of the step before a change, and in the first after it.
  for (const Death& death :
       {Death{.slot = 1, .at = {.hook = Hook::kEndStep, .step = 7}, .takes_effect = true},
        Death{.slot = 0, .at = {.hook = Hook::kBeginStep, .step = 8}}}) {
    options.deaths = {death};
    EXPECT_EQ(TrainByAllReduce(spec, options).trained[0].values, undisturbed.values);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BatchRampTest, ::testing::Values("mlp", "deep_fm", "transformer"),
                         [](const auto& info) { return info.param; });

TEST(BatchRampOnMeshTest, TrainsAsOneProcess) {
  const TempFolder folder;
  for (const TensorShape shape : {TensorShape::kGpt2, TensorShape::kExperts}) {
    SCOPED_TRACE(NameOf(shape));
    v1::JobSpec spec = TensorJob(shape, folder);
    spec.set_batch_size(14);
    spec.set_micro_batches(2);
    spec = WithRamp(spec);
    const TrainedValues alone = TrainLocally(spec);
    ExpectClose(ValuesByAllReduce(OnMesh(ByAllReduce(spec), 2, 2, 3)), alone, 1e-5);
    ExpectClose(ValuesOnServers(OnMesh(spec, 2, 2)), alone, 1e-5);
    ExpectClose(ValuesByAllReduce(InContext(OnMesh(ByAllReduce(spec), 1, 4), 2)), alone, 1e-5);
    ExpectClose(ValuesByAllReduce(InPipeline(OnMesh(ByAllReduce(spec), 1, 2), 2,
                                             v1::ParallelismSpec::ONE_F_ONE_B)),
                alone, 1e-5);
  }
}

}  // namespace
}  // namespace muster
