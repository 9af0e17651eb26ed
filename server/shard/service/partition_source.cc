#include "server/shard/service/partition_source.h"

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "proto/parameter_service.grpc.pb.h"

namespace muster {
namespace {

class GrpcPartitionSource final : public PartitionSource {
 public:
  explicit GrpcPartitionSource(const RpcCredentials& credentials) : credentials_(credentials) {}

  absl::Status Fetch(const std::string& address, const PartitionMove& move,
                     PartitionMover::ChunkSink sink) override {
    const auto stub = v1::ParameterService::NewStub(MakeChannel(address, credentials_));
    v1::HandOverRequest request;
    request.set_job_id(move.job_id);
    request.set_generation(move.generation);
    request.set_partition(move.partition);
    request.set_term(move.term);
    grpc::ClientContext context;
    {
      absl::MutexLock lock(&mutex_);
      current_ = &context;
    }
    absl::Status refused;
    const auto stream = stub->HandOver(&context, request);
    v1::HandOverChunk chunk;
    while (refused.ok() && stream->Read(&chunk)) refused = sink(chunk);
    if (!refused.ok()) context.TryCancel();
    const grpc::Status status = stream->Finish();
    absl::MutexLock lock(&mutex_);
    current_ = nullptr;
    return refused.ok() ? FromGrpc(status) : refused;
  }

  void Cancel() override {
    absl::MutexLock lock(&mutex_);
    if (current_ != nullptr) current_->TryCancel();
  }

 private:
  const RpcCredentials credentials_;
  absl::Mutex mutex_;
  grpc::ClientContext* current_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace

std::unique_ptr<PartitionSource> MakeGrpcPartitionSource(const RpcCredentials& credentials) {
  return std::make_unique<GrpcPartitionSource>(credentials);
}

}  // namespace muster
