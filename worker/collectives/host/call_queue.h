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

// A queue of started calls, carried out one after the other (messages side by side) by any thread
// that has the time: the queue's own, or one that waits for a call. A thread that takes over the
// engine goes on where the last one stopped.
//
// Start and Run are for one thread at a time; handles may be used by any thread and outlive the
// queue's owner, which closes the queue.
class CallQueue : public std::enable_shared_from_this<CallQueue> {
 public:
  // `engine` and `transport` outlive Close. `abort` ends the group and does not block.
  CallQueue(CallEngine& engine, Transport& transport,
            std::function<void(const std::string& reason)> abort);
  // REQUIRES: closed.
  ~CallQueue();

  std::shared_ptr<Work> Start(const CollectiveCall& call);

  // Carries the call out behind earlier ones, on this thread if possible.
  absl::Status Run(const CollectiveCall& call);

  // Ends the queue's thread. Aborts the group if calls have not ended.
  void Close();

 private:
  class StartedCall;

  void Background();
  // Waits for the call, and carries calls on meanwhile. DeadlineExceeded: not ended by `until`.
  absl::Status Await(StartedCall& call, absl::Duration until);
  // Carries calls on until `target` has ended, none is left, or `until`. REQUIRES: busy_ set by
  // this thread.
  void Drive(const StartedCall* target, absl::Duration until);
  // MayAdmit returns true if a queued call may begin, Admit begins such calls, Reap ends handles of
  // ended calls. REQUIRES: busy_ set by this thread.
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
  // Tells the queue's thread that there is something to do, or that the thread must end.
  absl::CondVar work_;
  // Tells threads that wait that a call has ended, or that the engine is free.
  absl::CondVar changed_;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  // True while a thread holds the engine.
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::shared_ptr<StartedCall>> queued_ ABSL_GUARDED_BY(mutex_);
  // Calls begun on the engine.
  std::vector<std::shared_ptr<StartedCall>> running_ ABSL_GUARDED_BY(mutex_);
  // Last member: the thread uses all the above.
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_CALL_QUEUE_H_
