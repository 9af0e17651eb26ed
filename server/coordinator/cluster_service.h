#ifndef MUSTER_SERVER_COORDINATOR_CLUSTER_SERVICE_H_
#define MUSTER_SERVER_COORDINATOR_CLUSTER_SERVICE_H_

#include <memory>

#include "server/coordinator/coordinator_loop.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace muster {

// Returns ClusterService over gRPC, which only translates. The loop outlives it.
std::unique_ptr<grpc::Service> MakeClusterService(CoordinatorLoop& loop);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CLUSTER_SERVICE_H_
