#ifndef MUSTER_CLIENT_TERMINAL_SCREEN_H_
#define MUSTER_CLIENT_TERMINAL_SCREEN_H_

#include "absl/strings/string_view.h"
#include "client/terminal/top_frame.h"

namespace muster {

// Returns the size of the terminal on standard output; 80 columns and 24 lines if it is unknown.
FrameSize TerminalSize();

// Draws on the whole terminal: on its second screen, without a cursor, for as long as the object
// lives. The destructor brings back what the terminal showed before.
class Screen {
 public:
  Screen();
  ~Screen();

  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Replaces what is shown. `frame` is printable (common/text/printable.h), and its lines end with
  // line breaks.
  void Show(absl::string_view frame);
};

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_SCREEN_H_
