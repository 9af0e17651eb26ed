#include "client/terminal/progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "client/terminal/progress.h"
#include "client/terminal/terminal.h"
#include "common/base/clock.h"
#include "common/text/utf8.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

constexpr int kBarWidth = 24;
constexpr absl::Duration kPlainInterval = absl::Seconds(2);

// Returns the number of the terminal's columns, at least 2.
size_t Columns() {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 2;
  return known ? size.ws_col : 80;
}

}  // namespace

ProgressDisplay::ProgressDisplay() : terminal_(isatty(STDOUT_FILENO)) {}

ProgressDisplay::ProgressDisplay(std::function<void(const v1::JobStatus&)> print)
    : terminal_(false), print_(std::move(print)) {}

bool ProgressDisplay::IsNew(std::string line) {
  if (line == shown_) return false;
  shown_ = std::move(line);
  return true;
}

void ProgressDisplay::ShowWait(const std::string& wait) {
  if (wait.empty()) return;
  // The bar is drawn again below.
  if (terminal_) std::printf("\r%s\r", std::string(shown_width_, ' ').c_str());
  shown_width_ = 0;
  Print("waits: %s\n", wait);
}

void ProgressDisplay::ShowBar(const v1::JobStatus& status) {
  // A line that wraps cannot be drawn again.
  const size_t columns = Columns();
  std::string line = ProgressLine(status, kBarWidth);
  if (line.size() >= columns) line = ProgressLine(status, 0);
  line = std::string(CutUtf8(line, columns - 1));
  const size_t width = line.size();
  line.resize(std::min(std::max(width, shown_width_), columns - 1), ' ');
  shown_width_ = width;
  std::printf("\r%s", line.c_str());
  std::fflush(stdout);
}

void ProgressDisplay::Show(const v1::JobStatus& status) {
  const absl::Duration now = RealClock().Monotonic();
  const std::string wait = waits_.Next(status, now);
  if (terminal_) {
    ShowWait(wait);
    return ShowBar(status);
  }
  const bool due = status.state() != shown_state_ || HasEnded(status) || !wait.empty() ||
                   now - shown_at_ >= kPlainInterval;
  if (!due) return;
  shown_at_ = now;
  shown_state_ = status.state();
  if (print_ != nullptr) {
    if (IsNew(status.SerializeAsString())) print_(status);
    return;
  }
  const std::string line = ProgressLine(status, 0);
  if (IsNew(line)) Print("%s\n", line);
  ShowWait(wait);
}

void ProgressDisplay::Finish() {
  if (terminal_) std::printf("\n");
}

}  // namespace muster
