#include "server/shard/service/parameter_client_for_testing.h"

#include "common/rpc/certificates_for_testing.h"
#include "common/rpc/channel.h"
#include "common/rpc/parameter_service/data_channel_client.h"
#include "grpcpp/server_builder.h"
#include "server/shard/service/in_process_parameter_client.h"

namespace muster {
namespace {

// Of server and clients.
RpcCredentials Credentials(Way way) {
  if (way != Way::kTls) return RpcCredentials::PlainText();
  CertificatesForTesting cluster(::testing::TempDir(), "cluster");
  return *RpcCredentials::Of(cluster.Issue("everybody"), TlsUse::kCallsAndServes);
}

}  // namespace

std::string WayName(const ::testing::TestParamInfo<Way>& info) {
  switch (info.param) {
    case Way::kInProcess:
      return "InProcess";
    case Way::kGrpc:
      return "Grpc";
    case Way::kTcp:
      return "Tcp";
    case Way::kTls:
      return "Tls";
    case Way::kSharedMemory:
      return "SharedMemory";
    case Way::kRegistered:
      return "Registered";
  }
  return "";
}

const char* Kind(Way way) {
  return way == Way::kGrpc  ? "grpc"
         : way == Way::kTcp ? "tcp"
         : way == Way::kTls ? "tls"
                            : "shared_memory";
}

ParameterClientTest::ParameterClientTest()
    : credentials_(Credentials(GetParam())), io_(*ChannelIo::Create()) {
  Serve(kFloats, {});
}

void ParameterClientTest::Serve(size_t floats, ExchangeLimits limits) {
  Stop();
  host_ = std::make_unique<FakePartitionHost>(floats);
  DataChannelServerOptions data;
  data.listener.host = "127.0.0.1";
  data.limits = limits;
  if (credentials_.encrypted()) data.listener.security = ChannelSecurity::kTls;
  data_channels_ = *DataChannelServer::Create(*host_, data);
  ParameterServiceOptions options;
  options.push_bytes = limits.push_bytes;
  options.reply_bytes = limits.reply_bytes;
  options.parked_bytes = limits.parked_bytes;
  service_ = ParameterService::Create(*host_, options, data_channels_.get());
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", credentials_.server(), &port);
  builder.RegisterService(&service_->service());
  server_ = builder.BuildAndStart();
  address_ = WithPort("127.0.0.1:0", port);
  client_ = Connect();
}

std::unique_ptr<ParameterClient> ParameterClientTest::Connect(ParameterClientOptions options) {
  if (GetParam() == Way::kInProcess) return MakeInProcessParameterClient(*host_);
  if (GetParam() == Way::kGrpc) return MakeGrpcParameterClient(address_, credentials_, options);
  DataChannelClientOptions channel;
  channel.client = options;
  const bool shared = GetParam() == Way::kSharedMemory || GetParam() == Way::kRegistered;
  channel.shared_memory_bytes = shared ? 4 << 20 : 0;
  channel.tcp =
      shared ? DataChannelClientOptions::Tcp::kNotUsed : DataChannelClientOptions::Tcp::kUsed;
  channel.opened = [](const std::string& kind, const std::string& reason) {
    EXPECT_EQ(kind, Kind(GetParam())) << reason;
  };
  channel.registered_memory = registered_;
  return MakeDataChannelClient(address_, credentials_, io_, channel);
}

void ParameterClientTest::Stop() {
  client_.reset();
  if (server_ == nullptr) return;
  service_->Shutdown();
  server_->Shutdown();
  server_.reset();
  service_.reset();
  data_channels_.reset();
}

Payload ParameterClientTest::Floats(std::vector<float> values) {
  const Payload payload = Payload::Of(std::move(values));
  if (registered_ == nullptr || payload.size() == 0) return payload;
  const absl::Span<std::byte> place = Place(payload.size());
  payload.CopyTo(place.data());
  return Payload({place}, registered_);
}

absl::Span<std::byte> ParameterClientTest::Place(size_t bytes) {
  if (registered_ != nullptr) return absl::MakeSpan(registered_->Take(bytes), bytes);
  own_places_.emplace_back(bytes);
  return absl::MakeSpan(own_places_.back());
}
std::vector<float> ParameterClientTest::Pulled(ParameterClient& client) {
  auto result = StartExchange(client, Pull())->Take(kTimeout);
  if (!result.ok()) {
    ADD_FAILURE() << result.status();
    return {};
  }
  std::vector<float> values(result->payload.size() / sizeof(float));
  result->payload.CopyTo(values.data());
  return values;
}

}  // namespace muster
