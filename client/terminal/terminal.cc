#include "client/terminal/terminal.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/text/printable.h"

namespace muster {
namespace {

constexpr char kGreen[] = "\x1b[32m";
constexpr char kPlain[] = "\x1b[0m";

void Write(std::FILE* file, const std::string& shown) {
  std::fwrite(shown.data(), 1, shown.size(), file);
  std::fflush(file);
}

}  // namespace

void WriteText(std::FILE* file, absl::string_view text) { Write(file, PrintableText(text)); }

void PrintPieces(absl::Span<const TextPiece> pieces) {
  const bool colour = isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == nullptr;
  std::string shown;
  for (const TextPiece& piece : pieces) {
    const std::string text = PrintableText(piece.text);
    if (piece.highlighted) {
      absl::StrAppend(&shown, colour ? kGreen : "", "⟦", text, "⟧", colour ? kPlain : "");
    } else {
      shown += text;
    }
  }
  Write(stdout, shown);
}

void PrintJsonText(absl::string_view json) { Write(stdout, PrintableJson(json) + "\n"); }

}  // namespace muster
