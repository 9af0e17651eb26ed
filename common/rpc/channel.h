#ifndef MUSTER_COMMON_RPC_CHANNEL_H_
#define MUSTER_COMMON_RPC_CHANNEL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/rpc/rpc_credentials.h"

namespace grpc {
class Channel;
class ClientContext;
class ServerBuilder;
}  // namespace grpc

namespace muster {

// Largest message that any of our channels and servers takes. A larger one ends its call with
// RESOURCE_EXHAUSTED, whose message names both sizes. Senders send tensors in much smaller messages
// (1 to 4 MiB move fastest).
inline constexpr int64_t kMaxMessageBytes = 64 << 20;

// Chooses between a connection that the process already has to the address and a new one.
enum class ConnectionSharing { kShared, kOwn };

// Returns a channel to `address` (host:port) with our message limit and keepalive: a peer that
// vanished without closing is noticed within half a minute. The channel connects lazily, reconnects
// by itself, and never repeats a call; that is for callers who know which calls may be repeated
// (see retry.h).
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const RpcCredentials& credentials,
                                           ConnectionSharing sharing = ConnectionSharing::kShared);

// Sets the same limits on a server, and makes it answer gRPC's standard health and reflection
// services. Call before BuildAndStart; the process keeps both services on for all its servers.
void ConfigureServer(grpc::ServerBuilder& builder);

// Gives the call `timeout` from now. Every unary call gets one.
void SetDeadline(grpc::ClientContext& context, absl::Duration timeout);

// Returns "host:port" of an address to listen on, once the port chosen for port 0 is known; returns
// an `address` with a port of its own unchanged.
std::string WithPort(absl::string_view address, int port);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_CHANNEL_H_
