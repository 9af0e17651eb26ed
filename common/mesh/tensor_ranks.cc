#include "common/mesh/tensor_ranks.h"

#include <algorithm>

#include "proto/job.pb.h"

namespace muster {

uint32_t PipelineStages(const v1::JobSpec& spec) {
  return std::max(1u, spec.parallelism().pipeline());
}

uint32_t TensorRanks(const v1::JobSpec& spec) { return std::max(1u, spec.parallelism().tensor()); }

bool DividesTokens(const v1::JobSpec& spec) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  return TensorRanks(spec) > 1 && spec.model().has_transformer() &&
         (!parallelism.has_sequence() || parallelism.sequence());
}

bool SumsInRankOrder(const v1::JobSpec& spec) {
  return spec.update().deterministic() || TensorRanks(spec) > 1;
}

}  // namespace muster
