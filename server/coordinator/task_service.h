#ifndef MUSTER_SERVER_COORDINATOR_TASK_SERVICE_H_
#define MUSTER_SERVER_COORDINATOR_TASK_SERVICE_H_

#include <memory>

#include "server/coordinator/coordinator_loop.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace muster {

// Returns TaskService over gRPC, which only translates. The loop outlives it.
std::unique_ptr<grpc::Service> MakeTaskService(CoordinatorLoop& loop);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_TASK_SERVICE_H_
