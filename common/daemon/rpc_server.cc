#include "common/daemon/rpc_server.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel.h"
#include "grpc/support/time.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace muster {
namespace {

// A connection takes two descriptors (see ConnectionGate), so a third of them are left for all else
// that a daemon opens.
constexpr size_t kDescriptorsPerConnection = 3;
constexpr size_t kMostConnections = 16384;
// Longest time for TLS's handshake or HTTP/2's settings; a silent peer is closed then.
constexpr int kHandshakeTimeoutMs = 10000;
// HTTP/2's preface and settings have less than 100 bytes, a call's headers more than 200; under TLS
// the client's certificate alone has more than its hello.
constexpr uint64_t kPlainCallerBytes = 200;
constexpr uint64_t kTlsCallerBytes = 1000;

size_t MaxConnections() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMostConnections;
  return std::clamp<size_t>(limit.rlim_cur / kDescriptorsPerConnection, 1, kMostConnections);
}

}  // namespace

absl::StatusOr<RpcPort> RpcPort::Listen(const std::string& listen,
                                        const RpcCredentials& credentials) {
  auto gate = ConnectionGate::Listen(
      listen, {.max_connections = MaxConnections(),
               .caller_bytes = credentials.encrypted() ? kTlsCallerBytes : kPlainCallerBytes});
  if (!gate.ok()) {
    return absl::Status(gate.status().code(),
                        absl::StrCat("cannot listen on ", listen, ": ", gate.status().message()));
  }
  std::string address = WithPort(listen, (*gate)->port());
  return RpcPort(std::move(address), credentials, *std::move(gate));
}

RpcPort::RpcPort(std::string address, const RpcCredentials& credentials,
                 std::unique_ptr<ConnectionGate> gate)
    : address_(std::move(address)), credentials_(credentials), gate_(std::move(gate)) {}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    RpcPort port, const std::vector<grpc::Service*>& services, const RpcServerOptions& options) {
  std::unique_ptr<RpcServer> server(new RpcServer());
  server->address_ = port.address();
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  if (options.received_bytes > 0) {
    grpc::ResourceQuota quota("received");
    quota.Resize(options.received_bytes);
    builder.SetResourceQuota(quota);
  }
  for (grpc::Service* service : services) builder.RegisterService(service);
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(Type::FROM_FD,
                                                           port.credentials_.server());
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot serve on ", server->address_));
  }
  server->server_->GetHealthCheckService()->SetServingStatus(kLiveness, true);
  server->SetReady(options.ready);
  server->gate_ = std::move(port.gate_);
  server->gate_->Open([acceptor](int listener, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection;
    acceptor->HandleNewConnection(&parameters);
  });
  return server;
}

void RpcServer::SetReady(bool ready) {
  server_->GetHealthCheckService()->SetServingStatus("", ready);
}

RpcServer::~RpcServer() { Shutdown(absl::ZeroDuration()); }

void RpcServer::Shutdown(absl::Duration patience) {
  gate_.reset();
  if (server_ != nullptr) {
    server_->Shutdown(gpr_time_from_nanos(absl::ToInt64Nanoseconds(patience), GPR_TIMESPAN));
  }
}

}  // namespace muster
