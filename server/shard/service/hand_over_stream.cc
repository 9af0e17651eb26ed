#include "server/shard/service/hand_over_stream.h"

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/rpc_status.h"

namespace muster {
namespace {

class HandOverStream final : public grpc::ServerWriteReactor<v1::HandOverChunk> {
 public:
  // Nothing may touch the stream after this: it ends when gRPC is done with it.
  void Run(PartitionMover& mover, const PartitionMove& move) {
    Finish(ToGrpc(
        mover.HandOver(move, [this](const v1::HandOverChunk& chunk) { return Send(chunk); })));
  }

 private:
  absl::Status Send(const v1::HandOverChunk& chunk) {
    {
      absl::MutexLock lock(&mutex_);
      if (broken_) return Gone();
      writing_ = true;
    }
    StartWrite(&chunk);
    absl::MutexLock lock(&mutex_);
    const auto written = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !writing_; };
    mutex_.Await(absl::Condition(&written));
    return broken_ ? Gone() : absl::OkStatus();
  }

  static absl::Status Gone() { return absl::UnavailableError("the new owner is gone"); }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) broken_ = true;
  }
  void OnDone() override { delete this; }

  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::HandOverChunk>* StartHandOver(PartitionMover* mover,
                                                           const v1::HandOverRequest& request,
                                                           BlockingPool& pool) {
  auto* stream = new HandOverStream();
  if (mover == nullptr) {
    stream->Finish(ToGrpc(absl::UnimplementedError("this server hands no partitions over")));
    return stream;
  }
  const PartitionMove move{.job_id = request.job_id(),
                           .generation = request.generation(),
                           .partition = request.partition(),
                           .term = request.term()};
  if (!pool.Run([stream, mover, move] { stream->Run(*mover, move); })) {
    stream->Finish(ToGrpc(
        absl::UnavailableError("too many partitions are being handed over here; try again")));
  }
  return stream;
}

}  // namespace muster
