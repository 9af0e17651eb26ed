#include "server/coordinator/history/expert_load_window.h"

#include <utility>

namespace muster {

void ExpertLoadWindow::Add(const v1::ExpertLoads& loads, absl::Duration now) {
  if (now - present_began_ >= kHalf) {
    before_ = std::exchange(present_, {});
    present_began_ = now;
  }
  present_.Add(loads);
}

ExpertSums ExpertLoadWindow::sums() const {
  ExpertSums both = before_;
  both.Add(present_);
  return both;
}

}  // namespace muster
