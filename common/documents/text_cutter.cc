#include "common/documents/text_cutter.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace muster {
namespace {

// A place is an end of a token only if no added token and no character lies across it, which the
// bytes behind it tell. More bytes than any of these has.
constexpr size_t kBytesBehind = size_t{64} << 10;

}  // namespace

absl::Status TextCutter::Cut(const Document& document,
                             absl::FunctionRef<absl::Status(const Piece& piece)> take) {
  absl::string_view text = document.parts[0].text;
  const size_t skipped = std::min<uint64_t>(skip_, text.size());
  text.remove_prefix(skipped);
  skip_ -= skipped;
  before_ += skipped;
  if (document.continues || !rest_.empty()) {
    rest_.append(text.data(), text.size());
    text = rest_;
  }
  const size_t known =
      document.continues ? text.size() - std::min(text.size(), kBytesBehind) : text.size();
  size_t begin = 0;
  while (begin < known) {
    const absl::string_view rest = text.substr(begin);
    const size_t end = begin + tokenizer_.SplitAfter(rest, std::min(piece_bytes_, rest.size()));
    if (end > known) break;
    const bool last = end == text.size();
    const TextStart start = before_ + begin == 0 ? TextStart::kDocument : TextStart::kWithin;
    MUSTER_RETURN_IF_ERROR(take({text.substr(begin, end - begin), before_ + end, start, last}));
    begin = end;
  }
  before_ = document.continues ? before_ + begin : 0;
  rest_.erase(0, document.continues ? begin : rest_.size());
  return absl::OkStatus();
}

}  // namespace muster
