#ifndef MUSTER_SERVER_COORDINATOR_UPDATE_STREAM_H_
#define MUSTER_SERVER_COORDINATOR_UPDATE_STREAM_H_

#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/coordinator_loop.h"
#include "server/coordinator/rpc_edge.h"

namespace muster {

// A stream of updates; a parked call asks for each. Derived classes say what to ask.
template <typename Message, typename Update>
class UpdateStream : public RawStream {
 protected:
  // Asks for the next update, on the logic thread. Only reads.
  virtual void Ask(Coordinator& coordinator, Call<Update> call) = 0;
  // Takes the message out of an update.
  virtual Message Take(Update& update) = 0;

  void Next() {
    loop_.PostRead([this](Coordinator& coordinator) {
      Ask(coordinator, {.done = [this](absl::StatusOr<Update> update) { Send(std::move(update)); },
                        .cancelled = cancelled_});
    });
  }

  explicit UpdateStream(CoordinatorLoop& loop) : loop_(loop) {}

 private:
  void Send(absl::StatusOr<Update> update) {
    absl::Status status = update.status();
    if (status.ok()) {
      last_ = update->last;
      message_.Clear();
      status = WriteReply(Take(*update), message_);
    }
    if (!status.ok()) return Finish(AtEdge(status));
    StartWrite(&message_);
  }

  void OnWriteDone(bool sent) override {
    if (!sent) return Finish(AtEdge(absl::CancelledError("the caller is gone")));
    if (last_) return Finish(grpc::Status::OK);
    Next();
  }

  void OnCancel() override { cancelled_->store(true, std::memory_order_release); }
  void OnDone() override { delete this; }

  CoordinatorLoop& loop_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  // Holds one update at a time: written before the write starts, read after it is done.
  grpc::ByteBuffer message_;
  bool last_ = false;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_UPDATE_STREAM_H_
