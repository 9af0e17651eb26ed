#include "common/rpc/shutdown_signal.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/clock.h"

namespace muster {
namespace {

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

ShutdownSignal::ShutdownSignal() {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

ShutdownSignal::~ShutdownSignal() {
  const sigset_t signals = Signals();
  // Drops a signal that came after the wait: let through, it would kill the process instead of
  // ending it in order.
  const timespec at_once = {};
  while (sigtimedwait(&signals, nullptr, &at_once) > 0) {
  }
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

std::string ShutdownSignal::Wait() {
  const sigset_t signals = Signals();
  int signal = 0;
  sigwait(&signals, &signal);
  return Describe(signal);
}

std::optional<std::string> ShutdownSignal::WaitFor(absl::Duration timeout) {
  const sigset_t signals = Signals();
  const RealClock clock;
  const absl::Duration until = clock.Monotonic() + timeout;
  while (true) {
    const timespec left =
        absl::ToTimespec(std::max(until - clock.Monotonic(), absl::ZeroDuration()));
    const int signal = sigtimedwait(&signals, nullptr, &left);
    if (signal > 0) return Describe(signal);
    if (errno != EINTR) return std::nullopt;
  }
}

std::string ShutdownSignal::Describe(int signal) {
  absl::MutexLock lock(&mutex_);
  return reason_.empty() ? strsignal(signal) : reason_;
}

void ShutdownSignal::Trigger(std::string reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (reason_.empty()) reason_ = std::move(reason);
  }
  // The signal, blocked in all threads, stays pending until somebody waits.
  kill(getpid(), SIGTERM);
}

}  // namespace muster
