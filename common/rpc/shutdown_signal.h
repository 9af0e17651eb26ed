#ifndef MUSTER_COMMON_RPC_SHUTDOWN_SIGNAL_H_
#define MUSTER_COMMON_RPC_SHUTDOWN_SIGNAL_H_

#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace muster {

// Turns SIGTERM and SIGINT into the end of a wait on the main thread, so that nothing ever runs in
// a signal handler. Make one at the start of main, before any thread: it blocks both signals for
// the caller and all threads started later. Spawned processes inherit the block unless they are
// given a signal mask of their own (POSIX_SPAWN_SETSIGMASK).
class ShutdownSignal {
 public:
  ShutdownSignal();
  // Drops pending signals, and lets later ones through again.
  ~ShutdownSignal();

  // Blocks until a signal or Trigger; returns which, for the log. At most one thread waits.
  std::string Wait() ABSL_LOCKS_EXCLUDED(mutex_);

  // Does the same, but returns nullopt if nothing comes within `timeout`.
  std::optional<std::string> WaitFor(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the wait, also one that begins later. Thread-safe.
  void Trigger(std::string reason) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Says which signal, or what Trigger was told.
  std::string Describe(int signal) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_SHUTDOWN_SIGNAL_H_
