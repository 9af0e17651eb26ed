#include "common/tokenizer/words/added_token_finder.h"

#include "common/text/utf8.h"
#include "common/tokenizer/words/expression.h"
#include "common/tokenizer/words/rewriter.h"

namespace muster {
namespace {

size_t SpaceBefore(absl::string_view text, size_t at, size_t from) {
  while (at > from) {
    const size_t last = CodePointBefore(text, at - 1);
    const CodePoint code_point = FirstCodePoint(text.substr(last));
    if (last < from || code_point.value == kInvalidCodePoint || !IsWhiteSpace(code_point.value)) {
      break;
    }
    at = last;
  }
  return at;
}

size_t SpaceBehind(absl::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint code_point = FirstCodePoint(text.substr(at));
    if (code_point.value == kInvalidCodePoint || !IsWhiteSpace(code_point.value)) break;
    at += code_point.bytes;
  }
  return at;
}

}  // namespace

void AddedTokenFinder::Add(const AddedToken& token, absl::string_view content) {
  const auto make = [this] {
    nodes_.emplace_back();
    return static_cast<int32_t>(nodes_.size()) - 1;
  };
  int32_t& root = roots_[static_cast<unsigned char>(content[0])];
  if (root == kNone) {
    root = make();
    ++first_bytes_;
    first_byte_ = content[0];
  }
  int32_t node = root;
  for (const char byte : content.substr(1)) {
    const auto found = nodes_[node].next.find(byte);
    const int32_t next = found != nodes_[node].next.end() ? found->second : make();
    nodes_[node].next.emplace(byte, next);
    node = next;
  }
  // Of two with the same content the first counts.
  if (nodes_[node].token == nullptr) nodes_[node].token = &token;
}

AddedTokenFinder::Found AddedTokenFinder::Next(absl::string_view text, size_t from) const {
  Found found;
  if (nodes_.empty()) return found;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (first_bytes_ == 1) begin = text.find(first_byte_, begin);
    if (begin >= text.size()) break;
    int32_t node = roots_[static_cast<unsigned char>(text[begin])];
    if (node == kNone) continue;
    for (size_t end = begin + 1;; ++end) {
      if (nodes_[node].token != nullptr) found = {nodes_[node].token, begin, end};
      if (end == text.size()) break;
      const auto next = nodes_[node].next.find(text[end]);
      if (next == nodes_[node].next.end()) break;
      node = next->second;
    }
    if (found.token == nullptr) continue;
    if (found.token->takes_left) found.begin = SpaceBefore(text, found.begin, from);
    if (found.token->takes_right) found.end = SpaceBehind(text, found.end);
    return found;
  }
  return found;
}

}  // namespace muster
