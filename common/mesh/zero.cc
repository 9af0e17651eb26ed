#include "common/mesh/zero.h"

#include "common/mesh/data_ranks.h"
#include "common/mesh/tensor_ranks.h"
#include "proto/job.pb.h"

namespace muster {

bool HoldsUnitsInFlight(const v1::JobSpec& spec) {
  return spec.parallelism().zero().stage() == 3 &&
         spec.update().dense() != v1::UpdateSpec::ALL_REDUCE;
}

uint32_t ShardGroupSize(const v1::JobSpec& spec) {
  const v1::ZeroSpec& zero = spec.parallelism().zero();
  if (zero.stage() == 0 || HoldsUnitsInFlight(spec) || spec.stop().evaluate_only()) return 1;
  return zero.shard() == 0 ? DataRanks(spec) : zero.shard();
}

bool DividesAnew(const v1::JobSpec& spec) {
  return ShardGroupSize(spec) > 1 && spec.min_workers() > 0 && spec.min_workers() < spec.workers();
}

uint32_t ShardGroupSize(const v1::JobSpec& spec, uint32_t ranks) {
  return DividesAnew(spec) ? ranks / TensorRanks(spec) : ShardGroupSize(spec);
}

uint32_t SmallestShardGroup(const v1::JobSpec& spec) {
  return ShardGroupSize(spec, spec.min_workers());
}

RankShards ShardsOfRanks(const v1::JobSpec& spec, uint32_t ranks) {
  const auto of_tensor_rank = static_cast<int>(ShardGroupSize(spec, ranks));
  if (spec.update().dense() != v1::UpdateSpec::ALL_REDUCE) return {of_tensor_rank};
  const auto stages = static_cast<int>(PipelineStages(spec));
  return {of_tensor_rank * static_cast<int>(TensorRanks(spec)) * stages, stages};
}

uint32_t ZeroStage(const v1::JobSpec& spec) {
  return ShardGroupSize(spec) == 1 ? 0 : spec.parallelism().zero().stage();
}

uint64_t KeptGatheredBytes(const v1::JobSpec& spec) {
  return ZeroStage(spec) == 3 ? spec.parallelism().zero().keep_gathered_bytes() : 0;
}

bool OffloadsOptimizerState(const v1::JobSpec& spec) {
  const v1::ZeroSpec& zero = spec.parallelism().zero();
  return zero.stage() > 0 && zero.offload() == v1::ZeroSpec::OPTIMIZER_STATE &&
         !HoldsUnitsInFlight(spec) && !spec.stop().evaluate_only();
}

uint32_t RankFiles(const v1::JobSpec& spec, uint32_t ranks) {
  return ShardsOfRanks(spec, ranks).count == 1 ? 0 : ranks;
}

}  // namespace muster
