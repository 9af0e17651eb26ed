#include "client/doctor/examination_caller.h"

#include <grpcpp/grpcpp.h>

#include "common/rpc/channel.h"
#include "common/rpc/rpc_status.h"
#include "proto/examination.grpc.pb.h"

namespace muster {
namespace {

// Time beyond the examination's own, for the last message.
constexpr absl::Duration kAfterwards = absl::Seconds(15);

}  // namespace

struct ExaminationCaller::Connection {
  std::unique_ptr<v1::ExaminationService::Stub> stub;
};

ExaminationCaller::ExaminationCaller(const std::string& coordinator_address,
                                     const RpcCredentials& credentials)
    : connection_(new Connection{
          v1::ExaminationService::NewStub(MakeChannel(coordinator_address, credentials))}) {}

ExaminationCaller::~ExaminationCaller() = default;

absl::StatusOr<int64_t> ExaminationCaller::ReadClock(absl::Duration timeout) {
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  v1::ReadClockReply reply;
  const absl::Status status =
      FromGrpc(connection_->stub->ReadClock(&context, v1::ReadClockRequest(), &reply));
  if (!status.ok()) return status;
  return reply.unix_us();
}

absl::Status ExaminationCaller::Examine(
    absl::Duration wait, const std::function<void(const v1::ExaminationUpdate&)>& added) {
  grpc::ClientContext context;
  SetDeadline(context, wait + kAfterwards);
  v1::ExamineRequest request;
  request.set_wait_ms(absl::ToInt64Milliseconds(wait));
  const auto stream = connection_->stub->Examine(&context, request);
  for (v1::ExaminationUpdate update; stream->Read(&update);) added(update);
  return FromGrpc(stream->Finish());
}

}  // namespace muster
