#ifndef MUSTER_COMMON_MESH_HOLDING_MESSAGE_H_
#define MUSTER_COMMON_MESH_HOLDING_MESSAGE_H_

#include "common/mesh/recovery_plan.h"

namespace muster {

namespace v1 {
class RendezvousRequest;
}  // namespace v1

// These functions put what a rank has of the parameters into its request to the coordinator.

// Writes what the rank has to its request.
void SetHolding(const RankHolding& holding, v1::RendezvousRequest& request);

// Returns what the rank has, by its request.
RankHolding HoldingOf(const v1::RendezvousRequest& request);

}  // namespace muster

#endif  // MUSTER_COMMON_MESH_HOLDING_MESSAGE_H_
