#ifndef MUSTER_COMMON_RPC_PARAMETER_SERVICE_PARAMETER_STUB_H_
#define MUSTER_COMMON_RPC_PARAMETER_SERVICE_PARAMETER_STUB_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "common/transport/data_channel/channel_handshake.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace muster {

// The unary calls of ParameterService. They block, until the timeout at most; errors name call and
// server. Thread-safe.
class ParameterStub {
 public:
  ParameterStub(const std::shared_ptr<grpc::Channel>& channel, std::string address);
  ~ParameterStub();

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                 absl::Duration timeout) const;
  absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest& request,
                                                       absl::Duration timeout) const;
  absl::Status DropTables(const std::string& job_id, absl::Duration timeout) const;
  absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration timeout) const;

  // Returns the data channel's address; its host is empty if the server leaves that open. Whoever
  // has the context can cancel the call.
  absl::StatusOr<ChannelAddress> OpenChannel(grpc::ClientContext& context,
                                             absl::Duration timeout) const;

 private:
  class Stub;

  absl::Status Result(absl::string_view method, const grpc::Status& status) const;

  const std::string address_;
  const std::unique_ptr<Stub> stub_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_PARAMETER_SERVICE_PARAMETER_STUB_H_
