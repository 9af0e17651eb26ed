#include "common/mesh/data_ranks.h"

#include <algorithm>

#include "common/base/round_up.h"
#include "proto/job.pb.h"

namespace muster {

uint32_t DataRanks(const v1::JobSpec& spec) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  uint32_t ranks = std::max(1u, spec.workers());
  for (const uint32_t size :
       {parallelism.pipeline(), parallelism.context(), parallelism.tensor()}) {
    ranks /= std::max(1u, size);
  }
  return ranks;
}

uint32_t LargestMicroBatch(const v1::JobSpec& spec) {
  const uint32_t share = CeilDivide(spec.batch_size(), DataRanks(spec));
  return CeilDivide(share, std::max(1u, spec.micro_batches()));
}

}  // namespace muster
