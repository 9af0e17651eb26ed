#include "common/examination/examination_client.h"

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "proto/examination.grpc.pb.h"

namespace muster {
namespace {

using ExaminationStub = v1::ExaminationService::Stub;

class GrpcExaminationClient final : public ExaminationClient {
 public:
  GrpcExaminationClient(const std::string& address, const RpcCredentials& credentials)
      : address_(address),
        stub_(v1::ExaminationService::NewStub(MakeChannel(address, credentials))) {}

  absl::StatusOr<v1::ExaminationOrder> Await(const v1::AwaitExaminationRequest& request,
                                             absl::Duration timeout) override {
    return CallOnce<v1::ExaminationOrder>(&ExaminationStub::AwaitExamination, request, timeout);
  }

  absl::StatusOr<v1::ReportExaminationReply> Report(const v1::ReportExaminationRequest& request,
                                                    absl::Duration timeout) override {
    return CallOnce<v1::ReportExaminationReply>(&ExaminationStub::ReportExamination, request,
                                                timeout);
  }

  absl::StatusOr<v1::ReadClockReply> ReadClock(absl::Duration timeout) override {
    return CallOnce<v1::ReadClockReply>(&ExaminationStub::ReadClock, v1::ReadClockRequest(),
                                        timeout);
  }

  void Interrupt() override {
    absl::MutexLock lock(&mutex_);
    interrupted_ = true;
    if (current_ != nullptr) current_->TryCancel();
  }

 private:
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> CallOnce(grpc::Status (ExaminationStub::*method)(grpc::ClientContext*,
                                                                         const Request&, Reply*),
                                 const Request& request, absl::Duration timeout) {
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    {
      absl::MutexLock lock(&mutex_);
      if (interrupted_) return absl::CancelledError("the examination client was interrupted");
      current_ = &context;
    }
    Reply reply;
    const grpc::Status status = ((*stub_).*method)(&context, request, &reply);
    absl::MutexLock lock(&mutex_);
    current_ = nullptr;
    if (status.ok()) return reply;
    return Annotate(FromGrpc(status), absl::StrCat("examination at coordinator ", address_));
  }

  const std::string address_;
  const std::unique_ptr<ExaminationStub> stub_;
  absl::Mutex mutex_;
  // The call in progress.
  grpc::ClientContext* current_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<ExaminationClient> MakeGrpcExaminationClient(const std::string& address,
                                                             const RpcCredentials& credentials) {
  return std::make_unique<GrpcExaminationClient>(address, credentials);
}

}  // namespace muster
