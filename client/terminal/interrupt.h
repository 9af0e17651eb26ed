#ifndef MUSTER_CLIENT_TERMINAL_INTERRUPT_H_
#define MUSTER_CLIENT_TERMINAL_INTERRUPT_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/shutdown_signal.h"

namespace muster {

// Lets a command say what it leaves behind, and end what it has started, before Ctrl-C (SIGINT, or
// SIGTERM) ends the command. While an object lives, the first signal calls what Call was given. The
// second, and the first without a Call, ends the process at once. Create it before any thread is
// started, gRPC's included.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();

  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Has `interrupted` called on a thread of this object once a signal comes, instead of what an
  // earlier Call gave. What it refers to outlives this object.
  void Call(std::function<void()> interrupted) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns true if a signal has come.
  bool happened() const { return happened_; }

 private:
  ShutdownSignal signal_;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> happened_ = false;
  absl::Mutex mutex_;
  std::function<void()> interrupted_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Ends this process as an unhandled SIGINT does, so that a shell sees status 130. Runs no
// destructors.
[[noreturn]] void EndAsInterrupted();

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_INTERRUPT_H_
