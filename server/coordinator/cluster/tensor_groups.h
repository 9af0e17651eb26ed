#ifndef MUSTER_SERVER_COORDINATOR_CLUSTER_TENSOR_GROUPS_H_
#define MUSTER_SERVER_COORDINATOR_CLUSTER_TENSOR_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/job_record.pb.h"

namespace muster {

// The workers on which a job's tensor groups are: t neighbouring slots each
// (kLayerAxes of common/mesh/mesh.h), which talk within every layer. Pure functions.

// Returns the workers that hold other slots of this slot's tensor group.
std::vector<std::string> WorkersOfTensorGroup(const v1::JobRecord& record, uint32_t slot);

// Returns a line for each such group on more than one worker: "tensor group of slots 2-3 spans
// workers w1 and w2", or "context group of …".
std::vector<std::string> SplitTensorGroups(const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CLUSTER_TENSOR_GROUPS_H_
