#include "common/text/printable.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

bool IsControl(uint32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

// Code points that change the direction of text (Unicode's Bidi_Control) or end lines.
bool ChangesOrder(uint32_t c) {
  return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

// Treatment of line breaks and tabs.
enum class Layout { kWrittenOut, kKept };

// Returns the text with what `escape` writes in place of every code point that is not to be shown.
template <typename Escape>
std::string Escaped(absl::string_view text, Layout layout, const Escape& escape) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const CodePoint first = FirstCodePoint(text);
    const bool lays_out = first.value == '\n' || first.value == '\t';
    const bool shows =
        first.value != kInvalidCodePoint && !IsControl(first.value) && !ChangesOrder(first.value);
    if (shows || (lays_out && layout == Layout::kKept)) {
      shown.append(text.data(), first.bytes);
    } else {
      escape(first.value, static_cast<unsigned char>(text[0]), shown);
    }
    text.remove_prefix(first.bytes);
  }
  return shown;
}

void WriteOut(uint32_t code_point, unsigned char byte, std::string& shown) {
  if (code_point == '\n') {
    shown += "\\n";
  } else if (code_point == '\t') {
    shown += "\\t";
  } else if (code_point == '\r') {
    shown += "\\r";
  } else if (code_point < 0x80 || code_point == kInvalidCodePoint) {
    absl::StrAppendFormat(&shown, "\\x%02x", byte);
  } else {
    absl::StrAppendFormat(&shown, "\\u%04x", code_point);
  }
}

}  // namespace

std::string PrintableLine(absl::string_view text) {
  return Escaped(text, Layout::kWrittenOut, WriteOut);
}

std::string PrintableText(absl::string_view text) { return Escaped(text, Layout::kKept, WriteOut); }

std::string PrintableStream::Add(absl::string_view piece) {
  unfinished_.append(piece.data(), piece.size());
  const size_t whole = unfinished_.size() - UnfinishedBytes(unfinished_);
  const std::string shown = PrintableText(absl::string_view(unfinished_).substr(0, whole));
  unfinished_.erase(0, whole);
  return shown;
}

std::string PrintableStream::Finish() {
  return PrintableText(std::exchange(unfinished_, std::string()));
}

std::string PrintableJson(absl::string_view json) {
  return Escaped(json, Layout::kKept, [](uint32_t code_point, unsigned char, std::string& shown) {
    absl::StrAppendFormat(&shown, "\\u%04x", code_point == kInvalidCodePoint ? 0xfffd : code_point);
  });
}

}  // namespace muster
