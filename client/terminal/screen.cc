#include "client/terminal/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace muster {
namespace {

// Escape codes of xterm, which all terminals of today know.
constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l";
constexpr char kLeave[] = "\x1b[?25h\x1b[?1049l";
constexpr char kHome[] = "\x1b[H";
constexpr char kEndOfLine[] = "\x1b[K\r\n";
constexpr char kClearRest[] = "\x1b[J";

void Write(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

FrameSize TerminalSize() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2 || size.ws_row < 2) return {};
  return {.columns = size.ws_col, .lines = size.ws_row};
}

Screen::Screen() { Write(kEnter); }

Screen::~Screen() { Write(kLeave); }

void Screen::Show(absl::string_view frame) {
  // Nothing is cleared before it is drawn over, so that nothing flickers.
  Write(absl::StrCat(kHome, absl::StrReplaceAll(frame, {{"\n", kEndOfLine}}), kClearRest));
}

}  // namespace muster
