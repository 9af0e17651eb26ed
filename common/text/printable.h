#ifndef MUSTER_COMMON_TEXT_PRINTABLE_H_
#define MUSTER_COMMON_TEXT_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Text as a terminal may see it. File names, reasons, log lines and names of jobs come from people
// and programs that need not mean well: control characters (C0, DEL and C1) could steer the
// terminal, and bidirectional controls, such as U+202E, show text in another order than it has.
// These are written out as \x1b and \u202e, bytes that are not UTF-8 as \xf6; everything else
// stays.

// Returns text for one line: line breaks and tabs are written out, too, as \n and \t.
std::string PrintableLine(absl::string_view text);

// Returns text of several lines: line breaks and tabs stay.
std::string PrintableText(absl::string_view text);

// Does the same for text that comes in parts, which may end within a character.
class PrintableStream {
 public:
  // Returns the text to show of all that came and was not shown yet.
  std::string Add(absl::string_view piece);
  // Returns the rest at the end.
  std::string Finish();

 private:
  std::string unfinished_;
};

// Returns JSON with control characters written as \u001b and \u202e, which mean the same in its
// strings, the only place where JSON has them. REQUIRES: UTF-8.
std::string PrintableJson(absl::string_view json);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_PRINTABLE_H_
