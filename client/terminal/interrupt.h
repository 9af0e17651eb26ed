#ifndef MUSTER_CLIENT_TERMINAL_INTERRUPT_H_
#define MUSTER_CLIENT_TERMINAL_INTERRUPT_H_

#include <atomic>
#include <functional>
#include <thread>

#include "common/rpc/shutdown_signal.h"

namespace muster {

// Lets a command end what it has started before Ctrl-C (SIGINT, or SIGTERM) ends the command. While
// an object lives, the signals end nothing by themselves. Create it before any thread is started,
// gRPC's included.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();

  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Calls `interrupted` on a thread of this object once a signal has come. May be called once per
  // object; what `interrupted` refers to outlives this object.
  void Call(std::function<void()> interrupted);

  // Returns true if a signal has come.
  bool happened() const { return happened_; }

 private:
  ShutdownSignal signal_;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> happened_ = false;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_INTERRUPT_H_
