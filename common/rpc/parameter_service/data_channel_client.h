#ifndef MUSTER_COMMON_RPC_PARAMETER_SERVICE_DATA_CHANNEL_CLIENT_H_
#define MUSTER_COMMON_RPC_PARAMETER_SERVICE_DATA_CHANNEL_CLIENT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/rpc/parameter_service/grpc_parameter_client.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "common/rpc/rpc_credentials.h"
#include "common/transport/data_channel/channel_io.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "common/transport/shared_memory/shared_segment.h"

namespace muster {

struct DataChannelClientOptions {
  ParameterClientOptions client;
  // Bytes of shared memory a direction and connection, where the server is on this machine; a
  // multiple of 64 KiB. 0: none is used. Memory is taken as it comes to be used, and kept. More
  // room lets more gradients wait at the server where they lie; what does not fit is copied there.
  size_t shared_memory_bytes = kDefaultArenaBytes;
  // Where the server is on this machine, it reads payloads and writes answers that lie here without
  // a copy on the way (see MemoryRange in proto/parameter_service.proto for what that asks of the
  // caller). Null: all are copied.
  std::shared_ptr<const RegisteredMemory> registered_memory;
  enum class Tcp { kUsed, kNotUsed };
  Tcp tcp = Tcp::kUsed;
  // For each attempt at opening a channel.
  absl::Duration open_timeout = absl::Seconds(3);
  // Told once per connection, from a thread that may block: the way that was found ("grpc", "tcp",
  // "tls" or "shared_memory"), and why better ones were not.
  std::function<void(const std::string& kind, const std::string& reason)> opened;
};

// A client of the server at `address` (host:port of its gRPC services) whose exchanges go by the
// server's data channel: through shared memory where the server is on this machine and runs as the
// same user, over TCP elsewhere, and by the rpc Exchange where neither can be had. Which one is
// found out at the first exchange, which waits for it, and stays for the client's life. Where the
// credentials are encrypted, TCP is under TLS or not used.
std::unique_ptr<ParameterClient> MakeDataChannelClient(const std::string& address,
                                                       const RpcCredentials& credentials,
                                                       std::shared_ptr<ChannelIo> io,
                                                       DataChannelClientOptions options = {});

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_PARAMETER_SERVICE_DATA_CHANNEL_CLIENT_H_
