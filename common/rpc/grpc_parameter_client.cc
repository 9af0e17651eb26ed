#include "common/rpc/grpc_parameter_client.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel.h"
#include "common/rpc/exchange_connection.h"
#include "common/rpc/rpc_status.h"
#include "proto/parameter_service.grpc.pb.h"

namespace muster {
namespace {

class GrpcParameterClient final : public ParameterClient {
 public:
  GrpcParameterClient(const std::string& address, ParameterClientOptions options)
      : address_(address) {
    const ExchangeConnection::Limits limits{options.window_bytes / options.connections,
                                            options.max_queued_bytes / options.connections};
    for (int i = 0; i < options.connections; ++i) {
      std::shared_ptr<grpc::Channel> channel = MakeChannel(address, ConnectionSharing::kOwn);
      if (i == 0) stub_ = v1::ParameterService::NewStub(channel);
      connections_.push_back(
          std::make_unique<ExchangeConnection>(std::move(channel), address, limits));
    }
  }

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                 absl::Duration timeout) override {
    v1::OpenTablesReply reply;
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    if (absl::Status status = Result("OpenTables", stub_->OpenTables(&context, request, &reply));
        !status.ok()) {
      return status;
    }
    return reply;
  }

  absl::Status DropTables(const std::string& job_id, absl::Duration timeout) override {
    v1::DropTablesRequest request;
    request.set_job_id(job_id);
    v1::DropTablesReply reply;
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    return Result("DropTables", stub_->DropTables(&context, request, &reply));
  }

  absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration timeout) override {
    v1::GetServerStatsReply reply;
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    if (absl::Status status = Result("GetServerStats", stub_->GetServerStats(&context, {}, &reply));
        !status.ok()) {
      return status;
    }
    return reply;
  }

  void Call(v1::ExchangeRequest request, Payload payload, Done done) override {
    ExchangeConnection& connection = *connections_[request.partition() % connections_.size()];
    connection.Call(std::move(request), std::move(payload), std::move(done));
  }

  void Abort(absl::Status reason) override {
    for (auto& connection : connections_) connection->Abort(reason);
  }

 private:
  absl::Status Result(absl::string_view method, const grpc::Status& status) const {
    return Annotate(FromGrpc(status), absl::StrCat(method, " on server ", address_));
  }

  const std::string address_;
  std::unique_ptr<v1::ParameterService::Stub> stub_;
  std::vector<std::unique_ptr<ExchangeConnection>> connections_;
};

}  // namespace

std::unique_ptr<ParameterClient> MakeGrpcParameterClient(const std::string& address,
                                                         ParameterClientOptions options) {
  return std::make_unique<GrpcParameterClient>(address, options);
}

}  // namespace muster
