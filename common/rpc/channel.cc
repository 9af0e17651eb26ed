#include "common/rpc/channel.h"

#include <mutex>

#include "absl/strings/str_cat.h"
#include "grpc/support/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/channel_arguments.h"

namespace muster {
namespace {

// A peer is pinged after this long without a byte from it, and given up after this long without an
// answer.
constexpr int kKeepaliveMs = 10000;
constexpr int kKeepaliveTimeoutMs = 10000;
// Longest time to connect: long, since a busy machine has to answer, too.
constexpr int kConnectTimeoutMs = 5000;
// Waits between attempts; gRPC's default grows to two minutes.
constexpr int kFirstReconnectMs = 50;
constexpr int kLongestReconnectMs = 1000;
// Least time between two look-ups of an address. A failed attempt is followed by one, and only then
// by the next attempt. gRPC's default, 30 s, would keep a restarted peer unreachable for that long.
constexpr int kBetweenLookupsMs = 100;

void EnableHealthAndReflection() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const RpcCredentials& credentials,
                                           ConnectionSharing sharing) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // Parked calls and idle streams are silent for long, and must be watched nevertheless.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  // Despite its name, the longest time of an attempt.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestReconnectMs);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kBetweenLookupsMs);
  // Only we know which calls may be repeated.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Daemons talk to each other directly; a proxy from the environment would only be in the way.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (sharing == ConnectionSharing::kOwn) {
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  }
  return grpc::CreateCustomChannel(address, credentials.client(), arguments);
}

void ConfigureServer(grpc::ServerBuilder& builder) {
  EnableHealthAndReflection();
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Clients ping as often as we do; less than half of that would be abuse.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepaliveMs / 2);
  // A port that another process listens on is an error, not a way to share its traffic.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

void SetDeadline(grpc::ClientContext& context, absl::Duration timeout) {
  // A duration, which gRPC adds to its monotonic clock: the time of day may be set meanwhile.
  context.set_deadline(gpr_time_from_micros(absl::ToInt64Microseconds(timeout), GPR_TIMESPAN));
}

std::string WithPort(absl::string_view address, int port) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || address.substr(colon + 1) != "0") {
    return std::string(address);
  }
  return absl::StrCat(address.substr(0, colon), ":", port);
}

}  // namespace muster
