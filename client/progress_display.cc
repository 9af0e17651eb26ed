#include "client/progress_display.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "client/progress.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

constexpr int kBarWidth = 24;
constexpr absl::Duration kPlainInterval = absl::Seconds(2);

void PrintLine(const v1::JobStatus& status) {
  std::printf("%s\n", ProgressLine(status, 0).c_str());
}

}  // namespace

ProgressDisplay::ProgressDisplay() : terminal_(isatty(STDOUT_FILENO)), print_(PrintLine) {}

ProgressDisplay::ProgressDisplay(std::function<void(const v1::JobStatus&)> print)
    : terminal_(false), print_(std::move(print)) {}

void ProgressDisplay::Show(const v1::JobStatus& status) {
  if (terminal_) {
    std::string line = ProgressLine(status, kBarWidth);
    const size_t width = line.size();
    line.resize(std::max(width, shown_width_), ' ');
    shown_width_ = width;
    std::printf("\r%s", line.c_str());
  } else {
    const bool due = status.state() != shown_state_ || HasEnded(status) ||
                     absl::Now() - shown_at_ >= kPlainInterval;
    if (!due) return;
    shown_at_ = absl::Now();
    shown_state_ = status.state();
    print_(status);
  }
  std::fflush(stdout);
}

void ProgressDisplay::Finish() {
  if (terminal_) std::printf("\n");
}

}  // namespace muster
