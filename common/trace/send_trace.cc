#include "common/trace/send_trace.h"

#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "proto/cluster_service.grpc.pb.h"
#include "proto/task_service.grpc.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(5);

}  // namespace

TraceSender::Send SendTaskTrace(const std::string& address, const RpcCredentials& credentials,
                                const v1::TaskIdentity& task) {
  const std::shared_ptr<v1::TaskService::Stub> stub =
      v1::TaskService::NewStub(MakeChannel(address, credentials));
  return [stub, task](const v1::TracePiece& piece) -> absl::StatusOr<v1::TraceReply> {
    v1::ReportTraceRequest request;
    *request.mutable_task() = task;
    *request.mutable_piece() = piece;
    grpc::ClientContext context;
    SetDeadline(context, kTimeout);
    v1::TraceReply reply;
    MUSTER_RETURN_IF_ERROR(FromGrpc(stub->ReportTrace(&context, request, &reply)));
    return reply;
  };
}

TraceSender::Send SendServerTrace(const std::string& address, const RpcCredentials& credentials,
                                  const std::string& server_id,
                                  std::function<uint64_t()> incarnation) {
  const std::shared_ptr<v1::ClusterService::Stub> stub =
      v1::ClusterService::NewStub(MakeChannel(address, credentials));
  return [stub, server_id, incarnation = std::move(incarnation)](
             const v1::TracePiece& piece) -> absl::StatusOr<v1::TraceReply> {
    v1::ReportServerTraceRequest request;
    request.set_id(server_id);
    request.set_incarnation(incarnation());
    *request.mutable_piece() = piece;
    grpc::ClientContext context;
    SetDeadline(context, kTimeout);
    v1::TraceReply reply;
    MUSTER_RETURN_IF_ERROR(FromGrpc(stub->ReportServerTrace(&context, request, &reply)));
    return reply;
  };
}

}  // namespace muster
