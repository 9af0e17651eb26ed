#ifndef MUSTER_COMMON_RPC_HEALTH_CHECK_H_
#define MUSTER_COMMON_RPC_HEALTH_CHECK_H_

#include "absl/status/status.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace muster {

// Calls gRPC's health service, which every daemon has. OK: the daemon answers, whether or not it is
// ready. Other statuses are those of the call. Blocks for as long as the context's deadline.
absl::Status CheckHealth(grpc::Channel& channel, grpc::ClientContext& context);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_HEALTH_CHECK_H_
