#include "common/rpc/parameter_service/grpc_parameter_client.h"

#include <utility>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/parameter_service/exchange_connection.h"
#include "common/rpc/parameter_service/parameter_stub.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

class GrpcParameterClient final : public ParameterClient {
 public:
  GrpcParameterClient(const std::string& address, const RpcCredentials& credentials,
                      ParameterClientOptions options) {
    const ExchangeLane::Limits limits{options.window_bytes / options.connections,
                                      options.max_queued_bytes / options.connections};
    for (int i = 0; i < options.connections; ++i) {
      std::shared_ptr<grpc::Channel> channel =
          MakeChannel(address, credentials, ConnectionSharing::kOwn);
      if (i == 0) stub_ = std::make_unique<ParameterStub>(channel, address);
      connections_.push_back(
          std::make_unique<ExchangeConnection>(std::move(channel), address, limits));
    }
  }

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                 absl::Duration timeout) override {
    return stub_->OpenTables(request, timeout);
  }
  absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest& request,
                                                       absl::Duration timeout) override {
    return stub_->EndGeneration(request, timeout);
  }
  absl::Status DropTables(const std::string& job_id, absl::Duration timeout) override {
    return stub_->DropTables(job_id, timeout);
  }
  absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration timeout) override {
    return stub_->Stats(timeout);
  }

  void Call(v1::ExchangeRequest request, Payload payload, Done done) override {
    ExchangeConnection& connection = *connections_[request.partition() % connections_.size()];
    connection.Call(std::move(request), std::move(payload), {}, std::move(done));
  }

  void Abort(absl::Status reason) override {
    for (auto& connection : connections_) connection->Abort(reason);
  }

 private:
  std::unique_ptr<ParameterStub> stub_;
  std::vector<std::unique_ptr<ExchangeConnection>> connections_;
};

}  // namespace

std::unique_ptr<ParameterClient> MakeGrpcParameterClient(const std::string& address,
                                                         const RpcCredentials& credentials,
                                                         ParameterClientOptions options) {
  return std::make_unique<GrpcParameterClient>(address, credentials, options);
}

}  // namespace muster
