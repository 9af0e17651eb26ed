#ifndef MUSTER_CLIENT_TERMINAL_INTERRUPT_H_
#define MUSTER_CLIENT_TERMINAL_INTERRUPT_H_

#include <atomic>
#include <functional>
#include <thread>

#include "common/rpc/shutdown_signal.h"

namespace muster {

// For a command that has to end what it has started before Ctrl-C (SIGINT, or SIGTERM) ends it. As
// long as one lives, the signals end nothing by themselves. Make it before any thread is started,
// also gRPC's.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();

  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Calls `interrupted` once, on a thread of this object's, when a signal has come. At most once
  // per object; what it refers to outlives this.
  void Call(std::function<void()> interrupted);

  // A signal has come.
  bool happened() const { return happened_; }

 private:
  ShutdownSignal signal_;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> happened_ = false;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_INTERRUPT_H_
