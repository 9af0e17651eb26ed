#ifndef MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_SESSION_H_
#define MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/payload.h"
#include "server/shard/calls/partition_host.h"
#include "server/shard/service/exchange_limits.h"
#include "server/shard/service/message_budget.h"

namespace muster {

// One client's exchange over some lane, which derived classes are: hands requests to the host in
// order, counts what they take of the client's bounds and of the process's budgets, and has answers
// sent as they come. Thread-safe.
class ExchangeSession : public std::enable_shared_from_this<ExchangeSession> {
 public:
  virtual ~ExchangeSession() = default;

  // Ends the lane with `status`, and cancels what is outstanding. Idempotent.
  virtual void Close(absl::Status status) = 0;

 protected:
  // A request in the host, with what it takes of the bounds.
  struct Pending {
    uint64_t request_id = 0;
    int64_t push_bytes = 0;
    int64_t parked_bytes = 0;
    // Share of one of the process's budgets. A call that is dropped unanswered takes it along.
    MessageShare share;
  };

  // A request takes this while it is in the host.
  struct Taking {
    // These count against the client's own bounds.
    int64_t bytes = 0;
    // These count against the process's budgets.
    int64_t budget_bytes = 0;
    // True if a push has found room before it was read.
    bool has_room = true;
  };

  // `host` and `counters` outlive the session's last call.
  ExchangeSession(PartitionHost& host, ExchangeLimits limits,
                  std::shared_ptr<MessageBudgets> budgets, ExchangeCounters& counters)
      : host_(host), limits_(limits), budgets_(std::move(budgets)), counters_(counters) {}

  // Hands `call` to the host, or answers that there is no room for it. Gives `arrived` back once
  // the request is counted. `pending` is the request's own.
  void Dispatch(std::shared_ptr<Pending> pending, ExchangeCall call, const Taking& taking,
                MessageShare& arrived) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the bytes of such an answer on the lane.
  virtual int64_t EncodedBytes(const v1::ExchangeReply& reply, const Payload& payload) const = 0;
  // Sends an answer that was counted, or drops it if the lane has ended meanwhile.
  virtual void Send(v1::ExchangeReply reply, Payload payload) ABSL_LOCKS_EXCLUDED(mutex_) = 0;
  // Brings an answer to where its request wants it. Returns whether it is there, and need not be
  // sent.
  virtual bool Land(const Pending& request, const Payload& payload) { return false; }
  // Called when a request was counted or answered.
  virtual void ChangedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {}

  // Returns the bytes that leave here without waiting for other slots.
  int64_t PassingLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return push_bytes_ + reply_bytes_;
  }
  // Returns whether the bounds let the lane read on. One that holds something asks again when it
  // holds less.
  bool MayReadLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  PartitionHost& host_;
  const ExchangeLimits limits_;
  const std::shared_ptr<MessageBudgets> budgets_;
  ExchangeCounters& counters_;
  // Shared with the calls in the host.
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);

  absl::Mutex mutex_;
  // True once the lane has ended.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t push_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t parked_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Bytes of answers that were counted and not yet sent.
  int64_t reply_bytes_ ABSL_GUARDED_BY(mutex_) = 0;

 private:
  // Sends the host's answer.
  void Answer(Pending& request, v1::ExchangeReply reply, Payload payload)
      ABSL_LOCKS_EXCLUDED(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_SESSION_H_
