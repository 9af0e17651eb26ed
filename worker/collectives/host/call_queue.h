#ifndef MUSTER_WORKER_COLLECTIVES_HOST_CALL_QUEUE_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_CALL_QUEUE_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/work.h"
#include "worker/collectives/collective_call.h"
#include "worker/collectives/host/call_engine.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// Calls that were started and are carried out one after the other (messages next to each other),
// by whichever thread has the time: a thread of the queue, or one that waits for a call. Whoever
// holds the engine goes on where the last one stopped.
//
// Start and Run are for one thread at a time; handles may be used by any thread and outlive the
// queue's owner, which closes it.
class CallQueue : public std::enable_shared_from_this<CallQueue> {
 public:
  // Both outlive Close. `abort` ends the group with a reason; it does not block.
  CallQueue(CallEngine& engine, Transport& transport,
            std::function<void(const std::string& reason)> abort);
  // REQUIRES: closed.
  ~CallQueue();

  std::shared_ptr<Work> Start(const CollectiveCall& call);

  // Carries the call out behind those started before, on this thread where it can.
  absl::Status Run(const CollectiveCall& call);

  // Ends the thread. Calls that have not ended are ended by aborting the group.
  void Close();

 private:
  class StartedCall;

  void Background();
  // Waits for the call and moves it on itself. DEADLINE_EXCEEDED: not before `until`.
  absl::Status Await(StartedCall& call, absl::Duration until);
  // Moves calls on until `target` has ended, none is left, or `until`.
  // REQUIRES: this thread has set busy_.
  void Drive(const StartedCall* target, absl::Duration until);
  // Each with busy_ set by this thread: whether a call may begin; begins those that may; tells
  // calls that have ended.
  bool MayAdmit();
  void Admit();
  void Reap();
  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasCallsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !queued_.empty() || !running_.empty();
  }

  CallEngine& engine_;
  Transport& transport_;
  const std::function<void(const std::string&)> abort_;

  absl::Mutex mutex_;
  // For the queue's thread: there is something to do, or it must end.
  absl::CondVar work_;
  // For those that wait: a call has ended, or the engine is free.
  absl::CondVar changed_;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  // Whether a thread holds the engine.
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::shared_ptr<StartedCall>> queued_ ABSL_GUARDED_BY(mutex_);
  // Begun on the engine.
  std::vector<std::shared_ptr<StartedCall>> running_ ABSL_GUARDED_BY(mutex_);
  // Last, once all the above is there.
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_CALL_QUEUE_H_
