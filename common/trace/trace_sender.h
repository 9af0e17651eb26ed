#ifndef MUSTER_COMMON_TRACE_TRACE_SENDER_H_
#define MUSTER_COMMON_TRACE_TRACE_SENDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/trace/clock_offset.h"
#include "common/trace/trace_event.h"
#include "common/trace/trace_recorder.h"

namespace muster {

namespace v1 {
class TraceOrder;
class TracePiece;
class TraceReply;
}  // namespace v1

// Carries out orders to trace: has a recorder record the steps, compares this machine's clock with
// the coordinator's, and sends what was recorded in pieces until everything is sent, the
// coordinator wants no more, or it has been out of reach for some seconds. Works on a thread of its
// own, which begins with the first order. Thread-safe.
class TraceSender {
 public:
  // Says how the process learns that its steps are over: by its own (a task), or from the
  // coordinator, since all tasks have sent theirs (a server).
  enum class Ends { kWithItsSteps, kWhenTold };
  struct Options {
    Ends ends = Ends::kWithItsSteps;
    // Time between pieces.
    absl::Duration interval = absl::Milliseconds(100);
    // The machine's monotonic clock.
    std::function<int64_t()> now = TraceNow;
  };
  // Sends a piece; makes one attempt, and blocks for it.
  using Send = std::function<absl::StatusOr<v1::TraceReply>(const v1::TracePiece&)>;

  // The recorder outlives the sender.
  TraceSender(TraceRecorder& recorder, Send send, Options options);
  // Sends what is recorded, in one attempt, and ends.
  ~TraceSender();

  // Takes an order that is repeated as long as it stands; no order, or another one, ends the one
  // before. Does not block.
  void Take(const v1::TraceOrder& order);

 private:
  // The way in which the trace goes on after a piece.
  enum class Next { kGoOn, kEnd };

  void Run();
  void Carry(const v1::TraceOrder& order);
  // Sends the piece, again after failures, and compares the clocks by the answer.
  Next Deliver(v1::TracePiece& piece);
  // Makes some round trips without events.
  Next CompareClocks(const v1::TraceOrder& order);
  // Waits for an interval. Returns false if the order no longer stands.
  bool Pause(uint64_t trace);

  TraceRecorder& recorder_;
  const Send send_;
  const Options options_;
  // The sender's thread only.
  ClockOffset offset_;
  bool told_to_finish_ = false;

  mutable absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // The order that stands; its trace is 0 if none does.
  const std::unique_ptr<v1::TraceOrder> order_ ABSL_PT_GUARDED_BY(mutex_);
  // Number of the last trace that was begun.
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<std::thread> thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRACE_TRACE_SENDER_H_
