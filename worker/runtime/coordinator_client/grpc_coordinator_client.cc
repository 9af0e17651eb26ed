#include "worker/runtime/coordinator_client/grpc_coordinator_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "proto/task_service.grpc.pb.h"

namespace muster {
namespace {

// Time limit of a call that is not repeated, and of one attempt of a repeated (parked) call. The
// latter only bounds how long a dead coordinator goes unnoticed.
constexpr absl::Duration kCallTimeout = absl::Seconds(10);
constexpr absl::Duration kParkedTimeout = absl::Seconds(60);

class GrpcCoordinatorClient final : public CoordinatorClient {
 public:
  GrpcCoordinatorClient(const std::string& address, const RpcCredentials& credentials,
                        const v1::TaskIdentity& task, const BackoffOptions& backoff, Waiter& waiter,
                        std::function<void(absl::string_view)> log)
      : address_(address),
        task_(task),
        backoff_(backoff),
        waiter_(waiter),
        log_(std::move(log)),
        stub_(v1::TaskService::NewStub(MakeChannel(address, credentials))) {}

  absl::StatusOr<v1::RendezvousReply> Rendezvous(v1::RendezvousRequest request) override {
    *request.mutable_task() = task_;
    v1::RendezvousReply reply;
    MUSTER_RETURN_IF_ERROR(Repeat("rendezvous", waiter_, [&](grpc::ClientContext& context) {
      return stub_->Rendezvous(&context, request, &reply);
    }));
    return reply;
  }

  absl::StatusOr<v1::ReportProgressReply> ReportProgress(
      v1::ReportProgressRequest request) override {
    *request.mutable_task() = task_;
    v1::ReportProgressReply reply;
    MUSTER_RETURN_IF_ERROR(Attempt(kCallTimeout, [&](grpc::ClientContext& context) {
      return stub_->ReportProgress(&context, request, &reply);
    }));
    return reply;
  }

  absl::Status ReportCollectives(v1::ReportCollectivesRequest request) override {
    *request.mutable_task() = task_;
    v1::ReportCollectivesReply reply;
    return Attempt(kCallTimeout, [&](grpc::ClientContext& context) {
      return stub_->ReportCollectives(&context, request, &reply);
    });
  }

  absl::StatusOr<v1::ReportEvaluationReply> ReportEvaluation(
      v1::ReportEvaluationRequest request) override {
    *request.mutable_task() = task_;
    v1::ReportEvaluationReply reply;
    MUSTER_RETURN_IF_ERROR(Repeat("evaluation", waiter_, [&](grpc::ClientContext& context) {
      return stub_->ReportEvaluation(&context, request, &reply);
    }));
    return reply;
  }

  absl::StatusOr<v1::AdjustReply> Adjust(v1::AdjustRequest request) override {
    *request.mutable_task() = task_;
    v1::AdjustReply reply;
    MUSTER_RETURN_IF_ERROR(Repeat("adjustment", waiter_, [&](grpc::ClientContext& context) {
      return stub_->Adjust(&context, request, &reply);
    }));
    return reply;
  }

  absl::StatusOr<v1::VerifyStepReply> VerifyStep(v1::VerifyStepRequest request) override {
    *request.mutable_task() = task_;
    v1::VerifyStepReply reply;
    MUSTER_RETURN_IF_ERROR(
        Repeat("comparison of a step", waiter_, [&](grpc::ClientContext& context) {
          return stub_->VerifyStep(&context, request, &reply);
        }));
    return reply;
  }

  absl::Status CommitCheckpoint(v1::CommitCheckpointRequest request,
                                std::stop_token stop) override {
    *request.mutable_task() = task_;
    RealWaiter own;
    const std::stop_callback end_waits(stop, [&own] { own.Stop(); });
    return Repeat("checkpoint", stop.stop_possible() ? own : waiter_,
                  [&](grpc::ClientContext& context) {
                    const std::stop_callback end(stop, [&context] { context.TryCancel(); });
                    v1::CommitCheckpointReply reply;
                    return stub_->CommitCheckpoint(&context, request, &reply);
                  });
  }

  absl::StatusOr<v1::ShardMap> GetShardMap(uint64_t min_version, absl::Duration wait) override {
    v1::GetShardMapRequest request;
    *request.mutable_task() = task_;
    request.set_min_version(min_version);
    request.set_wait_ms(absl::ToInt64Milliseconds(wait));
    v1::ShardMap map;
    MUSTER_RETURN_IF_ERROR(Attempt(kCallTimeout + wait, [&](grpc::ClientContext& context) {
      return stub_->GetShardMap(&context, request, &map);
    }));
    return map;
  }

 private:
  using Call = std::function<grpc::Status(grpc::ClientContext&)>;

  absl::Status Attempt(absl::Duration timeout, const Call& call) {
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    return FromGrpc(call(context));
  }

  // RESOURCE_EXHAUSTED without a time to try again is an answer: the request asks for too much.
  static bool IsAway(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
           (absl::IsResourceExhausted(status) && RetryAfter(status).has_value());
  }

  absl::Status Repeat(absl::string_view what, Waiter& waiter, const Call& call) {
    Backoff backoff(backoff_, Philox(task_.slot(), "coordinator", task_.job_id()));
    bool away = false;
    while (true) {
      absl::Status status = Attempt(kParkedTimeout, call);
      if (!IsAway(status)) {
        if (away) log_(absl::StrCat("coordinator ", address_, " is back"));
        return status;
      }
      if (absl::IsUnavailable(status) && !std::exchange(away, true)) {
        log_(absl::StrCat("coordinator ", address_, " is away, ", what,
                          " waits for it: ", status.message()));
      }
      if (!waiter.Wait(backoff.Next())) return status;
    }
  }

  const std::string address_;
  const v1::TaskIdentity task_;
  const BackoffOptions backoff_;
  Waiter& waiter_;
  const std::function<void(absl::string_view)> log_;
  const std::unique_ptr<v1::TaskService::Stub> stub_;
};

}  // namespace

std::unique_ptr<CoordinatorClient> MakeGrpcCoordinatorClient(
    const std::string& address, const RpcCredentials& credentials, const v1::TaskIdentity& task,
    const BackoffOptions& backoff, Waiter& waiter, std::function<void(absl::string_view)> log) {
  return std::make_unique<GrpcCoordinatorClient>(address, credentials, task, backoff, waiter,
                                                 std::move(log));
}

}  // namespace muster
