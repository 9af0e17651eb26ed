#ifndef MUSTER_COMMON_MESH_TENSOR_RANKS_H_
#define MUSTER_COMMON_MESH_TENSOR_RANKS_H_

#include <cstdint>

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// These functions say how many ranks divide the model among them. All take a valid specification,
// with or without its defaults filled in.

// Returns how many groups of ranks divide the model's layers among them: the size of the mesh's
// axis `pipeline`.
uint32_t PipelineStages(const v1::JobSpec& spec);

// Returns how many ranks divide each layer among them: the size of the mesh's axis `tensor`.
uint32_t TensorRanks(const v1::JobSpec& spec);

// Returns whether tensor ranks also share out the tokens where no rank needs all of them (sequence
// parallelism).
bool DividesTokens(const v1::JobSpec& spec);

// Returns whether data ranks sum gradients in order of rank (CollectiveCall::deterministic), where
// their communicator can: if the job asks for it, and always with several tensor ranks. Each of
// these sums its copy of what it shares with others among data ranks of its own. In another order
// such as a ring's, which depends on where an element lies, the copies would drift apart by
// rounding.
bool SumsInRankOrder(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_MESH_TENSOR_RANKS_H_
