#ifndef MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_GRPC_COORDINATOR_CLIENT_H_
#define MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_GRPC_COORDINATOR_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/rpc/retry.h"
#include "common/rpc/rpc_credentials.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"

namespace muster {

namespace v1 {
class TaskIdentity;
}  // namespace v1

// Returns a client of TaskService over gRPC at `address`. Calls are repeated while the coordinator
// is unreachable, after the waits of `backoff`, until `waiter` is stopped; then they return the
// last attempt's status. A call with its own stop token does not ask `waiter`. `log` gets a line
// when the coordinator goes away and when it is back. `waiter` outlives the client.
std::unique_ptr<CoordinatorClient> MakeGrpcCoordinatorClient(
    const std::string& address, const RpcCredentials& credentials, const v1::TaskIdentity& task,
    const BackoffOptions& backoff, Waiter& waiter, std::function<void(absl::string_view)> log);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_GRPC_COORDINATOR_CLIENT_H_
