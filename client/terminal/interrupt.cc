#include "client/terminal/interrupt.h"

#include <utility>

namespace muster {

Interrupt::Interrupt() = default;

Interrupt::~Interrupt() {
  ending_ = true;
  signal_.Trigger("the command ends");
  if (thread_.joinable()) thread_.join();
}

void Interrupt::Call(std::function<void()> interrupted) {
  thread_ = std::thread([this, interrupted = std::move(interrupted)] {
    signal_.Wait();
    if (ending_) return;
    happened_ = true;
    interrupted();
  });
}

}  // namespace muster
