#include "common/rpc/membership/cluster_client.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/membership/protocol.h"
#include "common/rpc/rpc_status.h"
#include "grpcpp/channel.h"
#include "proto/cluster_service.grpc.pb.h"

namespace muster {
namespace {

class GrpcClusterClient final : public ClusterClient {
 public:
  GrpcClusterClient(const std::string& address, const RpcCredentials& credentials)
      : address_(address), stub_(v1::ClusterService::NewStub(MakeChannel(address, credentials))) {}

  absl::StatusOr<Registration> Register(const DaemonIdentity& daemon,
                                        absl::Duration timeout) override {
    v1::RegisterDaemonRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_kind(daemon.kind == DaemonIdentity::Kind::kServer ? v1::SERVER : v1::WORKER);
    request.set_id(daemon.id);
    request.set_process_nonce(daemon.process_nonce);
    request.set_address(daemon.address);
    request.set_slots(daemon.slots);
    request.set_memory_bytes(daemon.memory_bytes);
    for (const OfferedDevice& device : daemon.devices) {
      v1::Device& offered = *request.add_devices();
      offered.set_name(device.name);
      offered.set_memory_bytes(device.memory_bytes);
    }
    request.set_multiplies_bf16(daemon.multiplies_bf16);
    request.set_processors(daemon.processors);
    request.set_allows_programs(daemon.allows_programs);
    v1::RegisterDaemonReply reply;
    absl::Status status = Interruptible("registration", timeout, [&](grpc::ClientContext& context) {
      return stub_->RegisterDaemon(&context, request, &reply);
    });
    if (!status.ok()) return status;
    return Registration{reply.incarnation(), absl::Milliseconds(reply.lease_ms())};
  }

  absl::StatusOr<v1::HeartbeatReply> Heartbeat(const v1::HeartbeatRequest& request,
                                               absl::Duration timeout) override {
    v1::HeartbeatReply reply;
    absl::Status status = Interruptible("heartbeat", timeout, [&](grpc::ClientContext& context) {
      return stub_->Heartbeat(&context, request, &reply);
    });
    if (!status.ok()) return status;
    return reply;
  }

  void Interrupt() override {
    absl::MutexLock lock(&mutex_);
    if (current_ != nullptr) {
      current_->TryCancel();
    } else {
      interrupted_ = true;
    }
  }

 private:
  template <typename Rpc>
  absl::Status Interruptible(absl::string_view what, absl::Duration timeout, Rpc rpc) {
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    {
      absl::MutexLock lock(&mutex_);
      if (std::exchange(interrupted_, false)) {
        return absl::CancelledError(absl::StrCat(what, " was interrupted"));
      }
      current_ = &context;
    }
    const grpc::Status status = rpc(context);
    absl::MutexLock lock(&mutex_);
    current_ = nullptr;
    return Annotate(FromGrpc(status), absl::StrCat(what, " at coordinator ", address_));
  }

  const std::string address_;
  const std::unique_ptr<v1::ClusterService::Stub> stub_;
  absl::Mutex mutex_;
  // The call in progress.
  grpc::ClientContext* current_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<ClusterClient> MakeGrpcClusterClient(const std::string& address,
                                                     const RpcCredentials& credentials) {
  return std::make_unique<GrpcClusterClient>(address, credentials);
}

}  // namespace muster
