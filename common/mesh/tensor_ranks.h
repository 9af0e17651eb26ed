#ifndef MUSTER_COMMON_MESH_TENSOR_RANKS_H_
#define MUSTER_COMMON_MESH_TENSOR_RANKS_H_

#include <cstdint>

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Both take a valid specification, its defaults filled in or not.

// Returns how many ranks divide each layer among them: the size of the mesh's axis `tensor`.
uint32_t TensorRanks(const v1::JobSpec& spec);

// Returns whether tensor ranks also share out the tokens where no rank needs all of them (sequence
// parallelism).
bool DividesTokens(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_MESH_TENSOR_RANKS_H_
