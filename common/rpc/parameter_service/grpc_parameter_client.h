#ifndef MUSTER_COMMON_RPC_PARAMETER_SERVICE_GRPC_PARAMETER_CLIENT_H_
#define MUSTER_COMMON_RPC_PARAMETER_SERVICE_GRPC_PARAMETER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/rpc/parameter_service/parameter_client.h"
#include "common/rpc/rpc_credentials.h"

namespace muster {

struct ParameterClientOptions {
  // Number of connections, each with one long-lived stream; a partition always uses the same one.
  // More than one lets a fast network and many cores work in parallel, and costs a wake-up each.
  int connections = 1;
  // Most bytes of pushes sent and not yet answered, over all connections; further operations wait
  // here, in order. Bounds what the server must hold for this client. By default all fit in a data
  // channel's shared memory, so that the next step's gradients come in while the server is busy
  // with the optimizer and answers nothing.
  int64_t window_bytes = 64 << 20;
  // Most bytes that may wait for the window; beyond them Call answers RESOURCE_EXHAUSTED.
  int64_t max_queued_bytes = int64_t{4} << 30;
};

// Returns a client of the server at `address` (host:port). Connects lazily: an unreachable server
// shows as UNAVAILABLE on the first call.
std::unique_ptr<ParameterClient> MakeGrpcParameterClient(const std::string& address,
                                                         const RpcCredentials& credentials,
                                                         ParameterClientOptions options = {});

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_PARAMETER_SERVICE_GRPC_PARAMETER_CLIENT_H_
