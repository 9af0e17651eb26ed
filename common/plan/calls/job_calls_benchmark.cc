// Recording a step of one kind of rank of a model of 126 blocks, as large as Llama 3.1 405B
// (--benchmark_filter picks one): its tables, its ranks, one of them, and a step of it.
#include <memory>
#include <string>

#include "benchmark/benchmark.h"
#include "common/job/validation/job_validator.h"
#include "common/plan/calls/job_calls.h"
#include "common/plan/memory/plan_jobs_for_testing.h"
#include "common/plan/ranks/rank_size.h"
#include "common/plan/size/model_size.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

const char* const kMeshes[] = {
    "parallelism { tensor: 8 zero { stage: 1 } }",
    "parallelism { tensor: 8 zero { stage: 3 } }",
    "parallelism { tensor: 8 pipeline: 2 }",
};

v1::JobSpec LargeJob(int mesh) {
  v1::JobSpec spec =
      Job("model { transformer { layers: 126 width: 16384 heads: 128 kv_heads: 8 context: 8192 "
          "vocabulary: 128256 feed_forward: 53248 activation: SWIGLU norm: RMS_NORM "
          "positions: ROTARY } } data { sequences { path: 't' } } "
          "optimizer { name: 'adamw' learning_rate: 0.1 } compute { type: BF16 } "
          "update { dense: ALL_REDUCE sparse: ALL_REDUCE } workers: 64 batch_size: 64 "
          "micro_batches: 8 " +
          std::string(kMeshes[mesh]));
  FillDefaults(spec);
  return spec;
}

ModelSize SizeOf(const v1::JobSpec& spec) { return SizeOfModel(spec, SizeOfData(spec.data())); }

void BM_Schema(benchmark::State& state) {
  const v1::JobSpec spec = LargeJob(static_cast<int>(state.range(0)));
  const ModelSize model = SizeOf(spec);
  for (auto _ : state) benchmark::DoNotOptimize(PlannedSchema(spec, model));
}
BENCHMARK(BM_Schema)->DenseRange(0, 2);

void BM_Job(benchmark::State& state) {
  const v1::JobSpec spec = LargeJob(static_cast<int>(state.range(0)));
  const v1::TablesSchema schema = PlannedSchema(spec, SizeOf(spec));
  for (auto _ : state) {
    benchmark::DoNotOptimize(JobCalls::Create(schema, spec, CallRoad::kAllReduce).value());
  }
}
BENCHMARK(BM_Job)->DenseRange(0, 2);

void BM_Rank(benchmark::State& state) {
  const v1::JobSpec spec = LargeJob(static_cast<int>(state.range(0)));
  const JobCalls job =
      JobCalls::Create(PlannedSchema(spec, SizeOf(spec)), spec, CallRoad::kAllReduce).value();
  for (auto _ : state) benchmark::DoNotOptimize(RankCalls::Create(job, /*rank=*/0).value());
}
BENCHMARK(BM_Rank)->DenseRange(0, 2);

void BM_Step(benchmark::State& state) {
  const v1::JobSpec spec = LargeJob(static_cast<int>(state.range(0)));
  const JobCalls job =
      JobCalls::Create(PlannedSchema(spec, SizeOf(spec)), spec, CallRoad::kAllReduce).value();
  const std::unique_ptr<RankCalls> rank = RankCalls::Create(job, /*rank=*/0).value();
  for (auto _ : state) {
    benchmark::DoNotOptimize(rank->Record({.examples = {1, 1, 1, 1}, .shard = 0}));
  }
}
BENCHMARK(BM_Step)->DenseRange(0, 2);

}  // namespace
}  // namespace muster
