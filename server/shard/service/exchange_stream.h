#ifndef MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_STREAM_H_
#define MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_STREAM_H_

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
#include "server/shard/service/exchange_session.h"
#include "server/shard/service/message_budget.h"

namespace muster {

// One client's Exchange stream. Owns itself until gRPC and the host are through with it.
// Thread-safe.
class ExchangeStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                             public ExchangeSession {
 public:
  // `host` and `counters` outlive the stream's last call; `budgets` are of the whole process.
  static std::shared_ptr<ExchangeStream> Start(PartitionHost& host, ExchangeLimits limits,
                                               std::shared_ptr<MessageBudgets> budgets,
                                               ExchangeCounters& counters);

  void Close(absl::Status status) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Reply {
    grpc::ByteBuffer message;
    int64_t bytes;
  };

  ExchangeStream(PartitionHost& host, ExchangeLimits limits,
                 std::shared_ptr<MessageBudgets> budgets, ExchangeCounters& counters)
      : ExchangeSession(host, limits, std::move(budgets), counters) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  int64_t EncodedBytes(const v1::ExchangeReply& reply, const Payload& payload) const override;
  void Send(v1::ExchangeReply reply, Payload payload) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Actions to take outside the lock after a change of state.
  struct Actions {
    bool read = false;
    bool write = false;
    bool finish = false;
    absl::Status status;
  };
  Actions NextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Perform(Actions actions) ABSL_LOCKS_EXCLUDED(mutex_);

  // Owned by gRPC between the start of a read or write and its reaction.
  grpc::ByteBuffer reading_message_;
  grpc::ByteBuffer writing_message_;

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
  absl::Status close_status_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // Requests whose answers are not among `replies_` yet.
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t writing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Reply> replies_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_STREAM_H_
