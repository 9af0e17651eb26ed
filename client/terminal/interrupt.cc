#include "client/terminal/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

namespace muster {

void EndAsInterrupted() {
  signal(SIGINT, SIG_DFL);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
  raise(SIGINT);
  // Not reached, except where somebody traces the process.
  _exit(128 + SIGINT);
}

Interrupt::Interrupt() {
  thread_ = std::thread([this] {
    for (;;) {
      signal_.Wait();
      if (ending_) return;
      std::function<void()> interrupted;
      {
        absl::MutexLock lock(&mutex_);
        interrupted = std::exchange(interrupted_, nullptr);
      }
      if (interrupted == nullptr) EndAsInterrupted();
      happened_ = true;
      interrupted();
    }
  });
}

Interrupt::~Interrupt() {
  ending_ = true;
  signal_.Trigger("the command ends");
  thread_.join();
}

void Interrupt::Call(std::function<void()> interrupted) {
  absl::MutexLock lock(&mutex_);
  interrupted_ = std::move(interrupted);
}

}  // namespace muster
