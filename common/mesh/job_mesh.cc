#include "common/mesh/job_mesh.h"

#include <algorithm>
#include <limits>

#include "common/base/round_up.h"
#include "proto/job.pb.h"

namespace muster {

namespace {

// Returns the number of ranks that share out experts; 1 where sizes do not divide one another,
// which the validator refuses.
int ExpertRanks(const v1::JobSpec& spec, uint32_t replicas, uint32_t shards, uint32_t context) {
  const uint32_t experts = std::max(1u, spec.parallelism().expert());
  uint32_t left = experts;
  for (const uint32_t size : {context, shards, replicas}) {
    const uint32_t taken = std::min(left, size);
    if (left % taken != 0 || size % taken != 0) return 1;
    left /= taken;
  }
  return left == 1 ? static_cast<int>(experts) : 1;
}

}  // namespace

Mesh MeshOf(const v1::JobSpec& spec, uint32_t ranks) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  uint32_t data = std::max(1u, ranks);
  for (const uint32_t size :
       {parallelism.pipeline(), parallelism.context(), parallelism.tensor()}) {
    data = std::max(1u, data / std::max(1u, size));
  }
  const auto context = static_cast<int>(std::max(1u, parallelism.context()));
  uint32_t shards = 1;
  const bool divides =
      parallelism.zero().stage() > 0 && !HoldsUnitsInFlight(spec) && !spec.stop().evaluate_only();
  if (divides) {
    // Rounds of other numbers of ranks than the job's divide the parameters anew.
    const bool anew = spec.min_workers() > 0 && ranks != spec.workers();
    const uint32_t given = parallelism.zero().shard();
    shards = given == 0 || (anew && given > 1) ? data : given;
    if (data % shards != 0) shards = 1;  // The validator refuses it.
  }
  return Mesh({.pipeline = static_cast<int>(std::max(1u, parallelism.pipeline())),
               .replica = static_cast<int>(data / shards),
               .shard = static_cast<int>(shards),
               .context_copies = divides ? 1 : context,
               .context_shards = divides ? context : 1,
               .tensor = static_cast<int>(std::max(1u, parallelism.tensor())),
               .expert = ExpertRanks(spec, data / shards, shards, context)});
}

uint32_t MostWorkers(const v1::JobSpec& spec) {
  return std::max(spec.workers(), spec.max_workers());
}

Mesh MeshOf(const v1::JobSpec& spec) { return MeshOf(spec, spec.workers()); }

uint32_t SizeAlong(Axes axes, const v1::JobSpec& spec) {
  return static_cast<uint32_t>(MeshOf(spec).size(axes));
}

uint32_t LargestBatch(const v1::JobSpec& spec) {
  uint32_t largest = std::max(spec.batch_size(), spec.adaptive_batch().max_batch_size());
  for (const v1::BatchChange& change : spec.batch_changes()) {
    largest = std::max(largest, change.batch_size());
  }
  return largest;
}

uint64_t ScaledBatch(const v1::JobSpec& spec, uint32_t data_ranks, uint64_t most) {
  const uint64_t all = SizeAlong(kDataAxes, spec);
  if (data_ranks == all && spec.batch_size() <= most) return spec.batch_size();
  const uint64_t micro_batches = uint64_t{data_ranks} * std::max(1u, spec.micro_batches());
  const uint64_t wanted = std::min(uint64_t{spec.batch_size()} * data_ranks / all, most);
  return std::max<uint64_t>(1, wanted / micro_batches) * micro_batches;
}

uint64_t LargestScaledBatch(const v1::JobSpec& spec) {
  if (!spec.scale_batch()) return LargestBatch(spec);
  const auto most = static_cast<uint32_t>(MeshOf(spec, MostWorkers(spec)).size(kDataAxes));
  const uint64_t largest = ScaledBatch(spec, most, std::numeric_limits<uint64_t>::max());
  return std::max<uint64_t>(spec.batch_size(), largest);
}

uint32_t LargestMicroBatch(const v1::JobSpec& spec) {
  const uint32_t share = CeilDivide(LargestBatch(spec), SizeAlong(kDataAxes, spec));
  return CeilDivide(share, std::max(1u, spec.micro_batches()));
}

bool DividesTokens(const v1::JobSpec& spec) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  return parallelism.tensor() > 1 && spec.model().has_transformer() &&
         (!parallelism.has_sequence() || parallelism.sequence());
}

ChoicesCounted ChoicesCountedOf(const v1::JobSpec& spec) {
  const v1::MoeSpec& moe = spec.model().transformer().moe();
  const bool counts = moe.auxiliary_loss() > 0 || moe.selection_bias();
  const bool together = counts && moe.auxiliary_scope() == v1::MoeSpec::GLOBAL_BATCH;
  return together || moe.capacity_factor() > 0 ? ChoicesCounted::kTogether
                                               : ChoicesCounted::kByDataRank;
}

bool AllComputeTogether(const v1::JobSpec& spec) {
  return ChoicesCountedOf(spec) == ChoicesCounted::kTogether && SizeAlong(kDataAxes, spec) > 1;
}

uint32_t RanksTogether(const v1::JobSpec& spec) {
  const Mesh mesh = MeshOf(spec);
  return mesh.size(AllComputeTogether(spec) ? Axes().Others() : kShareAxes);
}

bool SumsInRankOrder(const v1::JobSpec& spec) {
  return spec.update().deterministic() || spec.parallelism().tensor() > 1;
}

bool DividesAnew(const v1::JobSpec& spec) {
  return SizeAlong(kShardAxes, spec) > 1 && spec.min_workers() > 0 &&
         spec.min_workers() < MostWorkers(spec);
}

uint32_t SmallestShardGroup(const v1::JobSpec& spec) {
  const uint32_t ranks = DividesAnew(spec) ? spec.min_workers() : spec.workers();
  return static_cast<uint32_t>(MeshOf(spec, ranks).size(kShardAxes));
}

bool RanksDivideState(const v1::JobSpec& spec, uint32_t ranks) {
  return spec.update().dense() == v1::UpdateSpec::ALL_REDUCE &&
         MeshOf(spec, ranks).size(kStateAxes) > 1;
}

bool HoldsUnitsInFlight(const v1::JobSpec& spec) {
  return spec.parallelism().zero().stage() == 3 &&
         spec.update().dense() != v1::UpdateSpec::ALL_REDUCE;
}

uint32_t ZeroStage(const v1::JobSpec& spec) {
  return SizeAlong(kShardAxes, spec) == 1 ? 0 : spec.parallelism().zero().stage();
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
  return RanksDivideState(spec, ranks) ? ranks : 0;
}

}  // namespace muster
