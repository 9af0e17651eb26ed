#include "common/job_text/parse_json_text.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/job_text/text_tree_builder.h"

namespace muster {
namespace {

using Json = nlohmann::json;

// Reads characters and tells how far the reader has come, which the library does not.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  const char& operator*() const { return *at_; }
  CountingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

bool IsOfNumberOrWord(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.';
}

// Takes the library's events, each right after the token's last character was read, or, behind a
// number, the character after it.
class JsonEvents final : public nlohmann::json_sax<Json> {
 public:
  JsonEvents(absl::string_view text, const std::string& origin)
      : text_(text), reached_(text.data()), builder_(origin, TextTreeBuilder::Repeats::kRefused) {}

  absl::StatusOr<TextNode> Parse() {
    const char* const end = text_.data() + text_.size();
    const bool parsed = Json::sax_parse(CountingIterator(text_.data(), &reached_),
                                        CountingIterator(end, &reached_), this);
    if (!parsed) return builder_.status();
    return builder_.TakeRoot();
  }

  bool null() override {
    TextNode node;
    node.position = WordPosition();
    return builder_.Add(std::move(node));
  }
  bool boolean(bool value) override { return AddValue(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return AddValue(absl::StrCat(value)); }
  bool number_unsigned(number_unsigned_t value) override { return AddValue(absl::StrCat(value)); }
  bool number_float(number_float_t, const string_t& written) override { return AddValue(written); }
  bool string(string_t& value) override {
    TextNode node;
    node.kind = TextNode::Kind::kValue;
    node.position = StringPosition();
    node.value = std::move(value);
    node.may_be_text = true;
    return builder_.Add(std::move(node));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return builder_.BeginGroup(PositionOf(Reached() - 1)); }
  bool key(string_t& name) override { return builder_.Name(std::move(name), StringPosition()); }
  bool end_object() override { return builder_.End(); }
  bool start_array(std::size_t) override { return builder_.BeginList(PositionOf(Reached() - 1)); }
  bool end_array() override { return builder_.End(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error …".
    absl::string_view message = error.what();
    const size_t colon = message.find(": ");
    if (colon != absl::string_view::npos) message.remove_prefix(colon + 2);
    const size_t read = std::min(position, text_.size());
    return builder_.Refuse(PositionOf(read == 0 ? 0 : read - 1),
                           absl::StrCat("this is not JSON: ", message));
  }

 private:
  size_t Reached() const { return static_cast<size_t>(reached_ - text_.data()); }

  // Takes as long as the text since the last position; positions never go back.
  TextPosition PositionOf(size_t offset) {
    for (; counted_ < offset; ++counted_) {
      if (text_[counted_] != '\n') continue;
      ++line_;
      line_start_ = counted_ + 1;
    }
    return {line_, static_cast<int>(offset - line_start_) + 1};
  }

  // Returns the position of the string whose closing quote was read last: that of the quote before
  // it that no backslash escapes.
  TextPosition StringPosition() {
    size_t at = Reached() - 1;
    while (at > 0) {
      --at;
      if (text_[at] != '"') continue;
      size_t backslashes = 0;
      while (backslashes < at && text_[at - 1 - backslashes] == '\\') ++backslashes;
      if (backslashes % 2 == 0) break;
    }
    return PositionOf(at);
  }

  TextPosition WordPosition() {
    size_t at = Reached();
    if (at > 0 && !IsOfNumberOrWord(text_[at - 1])) --at;
    while (at > 0 && IsOfNumberOrWord(text_[at - 1])) --at;
    return PositionOf(at);
  }

  bool AddValue(std::string value) {
    TextNode node;
    node.kind = TextNode::Kind::kValue;
    node.position = WordPosition();
    node.value = std::move(value);
    return builder_.Add(std::move(node));
  }

  const absl::string_view text_;
  const char* reached_;
  // The last position that was asked for.
  size_t counted_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
  TextTreeBuilder builder_;
};

// Null counts as left out, so names without a value are removed.
void DropNothing(TextNode& node) {
  auto& entries = node.entries;
  entries.erase(std::remove_if(entries.begin(), entries.end(),
                               [](const TextEntry& entry) {
                                 return entry.node.kind == TextNode::Kind::kNothing;
                               }),
                entries.end());
  for (TextEntry& entry : entries) DropNothing(entry.node);
  for (TextNode& item : node.items) DropNothing(item);
}

}  // namespace

absl::StatusOr<TextNode> ParseJsonText(const std::string& text, const std::string& origin) {
  absl::StatusOr<TextNode> root = JsonEvents(text, origin).Parse();
  if (root.ok()) DropNothing(*root);
  return root;
}

}  // namespace muster
