#ifndef MUSTER_CLIENT_TERMINAL_TERMINAL_H_
#define MUSTER_CLIENT_TERMINAL_TERMINAL_H_

#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// Prints for every command. Much of what commands print comes from elsewhere (names of jobs and
// files, reasons, log lines, errors), and must not steer the terminal (common/text/printable.h).
// Line breaks stay: where a value must not make lines of its own, the caller passes it through
// PrintableLine.

// Writes text to `file` and flushes it.
void WriteText(std::FILE* file, absl::string_view text);

// Prints to standard output, like absl::PrintF.
template <typename... Args>
void Print(const absl::FormatSpec<Args...>& format, const Args&... args) {
  WriteText(stdout, absl::StrFormat(format, args...));
}

// Prints to standard error.
template <typename... Args>
void PrintError(const absl::FormatSpec<Args...>& format, const Args&... args) {
  WriteText(stderr, absl::StrFormat(format, args...));
}

// A piece of text, perhaps to be told from others.
struct TextPiece {
  std::string text;
  bool highlighted = false;
};

// Prints pieces to standard output. Highlighted ones are in ⟦brackets⟧, and in colour where that is
// a terminal, unless the environment has NO_COLOR.
void PrintPieces(absl::Span<const TextPiece> pieces);

// Prints JSON and a line break to standard output.
void PrintJsonText(absl::string_view json);

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_TERMINAL_H_
