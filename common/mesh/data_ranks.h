#ifndef MUSTER_COMMON_MESH_DATA_RANKS_H_
#define MUSTER_COMMON_MESH_DATA_RANKS_H_

#include <cstdint>

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Both take a valid specification, its defaults filled in or not.

// Returns how many data ranks a job with all its workers has: the size of its mesh's axis `data`.
// Each computes its share of a step's examples.
uint32_t DataRanks(const v1::JobSpec& spec);

// Returns the examples of the largest micro-batch of any data rank. A round with fewer data ranks
// has no larger micro-batch (worker/data/sampling/shares.h).
uint32_t LargestMicroBatch(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_MESH_DATA_RANKS_H_
