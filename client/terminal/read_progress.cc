#include "client/terminal/read_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/terminal/format.h"
#include "common/base/clock.h"
#include "common/text/format_bytes.h"

namespace muster {
namespace {

constexpr absl::Duration kBetween = absl::Milliseconds(500);

void Draw(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

ReadProgress::ReadProgress(bool shown, uint64_t bytes)
    : shown_(shown && isatty(STDERR_FILENO) == 1 && bytes > 0),
      bytes_(bytes),
      next_(RealClock().Monotonic() + kBetween) {}

ReadProgress::~ReadProgress() { End(); }

void ReadProgress::Add(uint64_t bytes) {
  read_ += bytes;
  if (!shown_ || RealClock().Monotonic() < next_) return;
  next_ = RealClock().Monotonic() + kBetween;
  drawn_ = true;
  const double part = std::min(1.0, static_cast<double>(read_) / static_cast<double>(bytes_));
  // The escape removes what is left of a longer line.
  Draw(absl::StrCat("\r", FormatBytes(static_cast<double>(read_)), " of ",
                    FormatBytes(static_cast<double>(bytes_)), ", ", FormatPercent(part), "\x1b[K"));
}

void ReadProgress::End() {
  if (drawn_) Draw("\r\x1b[K");
  drawn_ = false;
}

}  // namespace muster
