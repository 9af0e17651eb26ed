#ifndef MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_STREAM_H_
#define MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/payload.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/shard/calls/partition_host.h"
#include "server/shard/service/exchange_limits.h"
#include "server/shard/service/message_budget.h"

namespace muster {

// One client's Exchange stream: reads operations, hands them to the host in order, writes replies
// as they come. Owns itself until gRPC and the host are through with it. Thread-safe.
class ExchangeStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                             public std::enable_shared_from_this<ExchangeStream> {
 public:
  // `host` and `counters` outlive the stream's last call; `budgets` are of the whole process.
  static std::shared_ptr<ExchangeStream> Start(PartitionHost& host, ExchangeLimits limits,
                                               std::shared_ptr<MessageBudgets> budgets,
                                               ExchangeCounters& counters);

  // Ends the stream with `status`, and cancels what is outstanding. Idempotent.
  void Close(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Reply {
    grpc::ByteBuffer message;
    int64_t bytes;
  };

  ExchangeStream(PartitionHost& host, ExchangeLimits limits,
                 std::shared_ptr<MessageBudgets> budgets, ExchangeCounters& counters)
      : host_(host), limits_(limits), budgets_(std::move(budgets)), counters_(counters) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // A request on its way through the host, with what it takes of the bounds.
  struct Pending {
    uint64_t request_id = 0;
    int64_t push_bytes = 0;
    int64_t parked_bytes = 0;
    // Share of one of the process's budgets. A call that is dropped unanswered takes it along.
    MessageShare share;
  };

  void Dispatch(std::shared_ptr<v1::ExchangeRequest> request, Payload payload);
  // Sends the host's answer.
  void Answer(Pending& request, v1::ExchangeReply reply, Payload payload);

  // Actions to take outside the lock after a change of state.
  struct Actions {
    bool read = false;
    bool write = false;
    bool finish = false;
    absl::Status status;
  };
  // Returns the bytes that leave here without waiting for other slots.
  int64_t PassingLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return push_bytes_ + reply_bytes_;
  }
  Actions NextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Perform(Actions actions) ABSL_LOCKS_EXCLUDED(mutex_);

  PartitionHost& host_;
  const ExchangeLimits limits_;
  const std::shared_ptr<MessageBudgets> budgets_;
  ExchangeCounters& counters_;
  // Shared with the calls in the host.
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);

  // Owned by gRPC between the start of a read or write and its reaction.
  grpc::ByteBuffer reading_message_;
  grpc::ByteBuffer writing_message_;

  absl::Mutex mutex_;
  // Keeps the stream alive until gRPC is done with it.
  std::shared_ptr<ExchangeStream> self_ ABSL_GUARDED_BY(mutex_);
  // True while a read is under way, or its message is being dispatched.
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  // True between the decision to read and the call that starts it: finishing in between would end
  // the stream under that call.
  bool starting_read_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // True once the client sends no more.
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status close_status_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t push_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t parked_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t reply_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t writing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Reply> replies_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_STREAM_H_
