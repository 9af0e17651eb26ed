#ifndef MUSTER_COMMON_RPC_PARAMETER_SERVICE_DATA_CHANNEL_CLIENT_H_
#define MUSTER_COMMON_RPC_PARAMETER_SERVICE_DATA_CHANNEL_CLIENT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/rpc/parameter_service/grpc_parameter_client.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "common/rpc/retry.h"
#include "common/rpc/rpc_credentials.h"
#include "common/transport/data_channel/channel_io.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "common/transport/shared_memory/shared_segment.h"

namespace muster {

struct DataChannelClientOptions {
  ParameterClientOptions client;
  // Bytes of shared memory per direction and connection with a server on this machine; a multiple
  // of 64 KiB. 0: none. Memory is taken on first use, and kept. More of it lets more gradients wait
  // at the server where they lie; the server copies those that do not fit.
  size_t shared_memory_bytes = kDefaultArenaBytes;
  // Memory in which a server on this machine reads payloads and writes answers without a copy on
  // the way (MemoryRange in proto/parameter_service.proto says what that asks of the caller). Null:
  // all are copied.
  std::shared_ptr<const RegisteredMemory> registered_memory;
  enum class Tcp { kUsed, kNotUsed };
  Tcp tcp = Tcp::kUsed;
  // Waits between attempts, and is stopped with the client, which has it to itself; null: a
  // RealWaiter.
  std::shared_ptr<Waiter> waiter;
  // Called once per connection, and again if a later attempt found a better way, on a thread that
  // may block, with the way found ("grpc", "tcp", "tls" or "shared_memory"), and why better ones
  // were not.
  std::function<void(const std::string& kind, const std::string& reason)> opened;
};

// Returns a client of the server at `address` (host:port of its gRPC services) whose exchanges go
// by the server's data channel: through shared memory if the server is on this machine and runs as
// the same user, otherwise over TCP, and by the rpc Exchange if neither can be had. The first
// exchange finds out which, and waits for it. While exchanges go by the rpc, the data channel is
// tried again after 10 seconds, and then ever more seldom, up to each 5 minutes, without a call
// that waits for it: the server may only have been slow. With encrypted credentials, TCP is under
// TLS or not used.
std::unique_ptr<ParameterClient> MakeDataChannelClient(const std::string& address,
                                                       const RpcCredentials& credentials,
                                                       std::shared_ptr<ChannelIo> io,
                                                       DataChannelClientOptions options = {});

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_PARAMETER_SERVICE_DATA_CHANNEL_CLIENT_H_
