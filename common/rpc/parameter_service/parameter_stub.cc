#include "common/rpc/parameter_service/parameter_stub.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_status.h"
#include "common/transport/data_channel/frame.h"
#include "proto/parameter_service.grpc.pb.h"

namespace muster {

class ParameterStub::Stub {
 public:
  explicit Stub(const std::shared_ptr<grpc::Channel>& channel)
      : rpcs(v1::ParameterService::NewStub(channel)) {}

  const std::unique_ptr<v1::ParameterService::Stub> rpcs;
};

ParameterStub::ParameterStub(const std::shared_ptr<grpc::Channel>& channel, std::string address)
    : address_(std::move(address)), stub_(std::make_unique<Stub>(channel)) {}

ParameterStub::~ParameterStub() = default;

absl::StatusOr<v1::OpenTablesReply> ParameterStub::OpenTables(const v1::OpenTablesRequest& request,
                                                              absl::Duration timeout) const {
  v1::OpenTablesReply reply;
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  absl::Status status = Result("OpenTables", stub_->rpcs->OpenTables(&context, request, &reply));
  if (!status.ok()) return status;
  return reply;
}

absl::StatusOr<v1::EndGenerationReply> ParameterStub::EndGeneration(
    const v1::EndGenerationRequest& request, absl::Duration timeout) const {
  v1::EndGenerationReply reply;
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  absl::Status status =
      Result("EndGeneration", stub_->rpcs->EndGeneration(&context, request, &reply));
  if (!status.ok()) return status;
  return reply;
}

absl::Status ParameterStub::DropTables(const std::string& job_id, absl::Duration timeout) const {
  v1::DropTablesRequest request;
  request.set_job_id(job_id);
  v1::DropTablesReply reply;
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  return Result("DropTables", stub_->rpcs->DropTables(&context, request, &reply));
}

absl::StatusOr<v1::GetServerStatsReply> ParameterStub::Stats(absl::Duration timeout) const {
  v1::GetServerStatsReply reply;
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  absl::Status status = Result("GetServerStats", stub_->rpcs->GetServerStats(&context, {}, &reply));
  if (!status.ok()) return status;
  return reply;
}

absl::StatusOr<ChannelAddress> ParameterStub::OpenChannel(grpc::ClientContext& context,
                                                          absl::Duration timeout) const {
  v1::OpenChannelRequest request;
  request.set_version(kChannelVersion);
  v1::OpenChannelReply reply;
  SetDeadline(context, timeout);
  absl::Status status = Result("OpenChannel", stub_->rpcs->OpenChannel(&context, request, &reply));
  if (!status.ok()) return status;
  if (reply.version() != kChannelVersion || reply.port() > 0xffff) {
    return absl::FailedPreconditionError(
        absl::StrCat("OpenChannel on server ", address_, ": it answers with version ",
                     reply.version(), " and port ", reply.port(), ", expected version ",
                     kChannelVersion, " and a port up to 65535"));
  }
  ChannelAddress address;
  address.version = reply.version();
  address.host = reply.host();
  address.port = static_cast<uint16_t>(reply.port());
  address.unix_name = reply.unix_name();
  address.nonce = reply.nonce();
  address.secret = reply.secret();
  address.security = reply.tls() ? ChannelSecurity::kTls : ChannelSecurity::kPlain;
  return address;
}

absl::Status ParameterStub::Result(absl::string_view method, const grpc::Status& status) const {
  return Annotate(FromGrpc(status), absl::StrCat(method, " on server ", address_));
}

}  // namespace muster
