#ifndef MUSTER_WORKER_COLLECTIVES_HOST_LIVE_COMMUNICATORS_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_LIVE_COMMUNICATORS_H_

#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/collectives/communicator.h"

namespace muster {

// The communicators of one endpoint, those split from others included, so that any thread can abort
// all of them at once. Thread-safe.
class LiveCommunicators {
 public:
  void Add(Communicator* communicator) {
    absl::MutexLock lock(&mutex_);
    live_.insert(communicator);
  }
  // Blocks while Abort runs, so that the communicator may end then.
  void Remove(Communicator* communicator) {
    absl::MutexLock lock(&mutex_);
    live_.erase(communicator);
  }
  void Abort(const std::string& reason) {
    absl::MutexLock lock(&mutex_);
    for (Communicator* const each : live_) each->Abort(reason);
  }

 private:
  absl::Mutex mutex_;
  std::set<Communicator*> live_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_LIVE_COMMUNICATORS_H_
