#include "common/job_text/parse_textproto.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job_text/text_tree_builder.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace muster {
namespace {

using google::protobuf::io::Tokenizer;

TextPosition PositionOf(const Tokenizer::Token& token) {
  return {token.line + 1, token.column + 1};
}

// Goes over the tokens from left to right, by recursive descent. Every method returns false once
// something was refused.
class TextprotoParser final : private google::protobuf::io::ErrorCollector {
 public:
  TextprotoParser(const std::string& text, const std::string& origin)
      : builder_(origin, TextTreeBuilder::Repeats::kAllowed) {
    google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
    Tokenizer tokenizer(&stream, this);
    tokenizer.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokenizer.set_allow_f_after_float(true);
    // Numbers may have units.
    tokenizer.set_require_space_after_number(false);
    while (builder_.status().ok() && tokenizer.Next()) tokens_.push_back(tokenizer.current());
    // The end, with its place.
    tokens_.push_back(tokenizer.current());
  }

  absl::StatusOr<TextNode> Parse() {
    if (builder_.BeginGroup({1, 1}) && ParseEntries("") && builder_.End()) {
      return builder_.TakeRoot();
    }
    return builder_.status();
  }

 private:
  void AddError(int line, int column, const std::string& message) override {
    builder_.Refuse({line + 1, column + 1}, message);
  }

  const Tokenizer::Token& current() const { return tokens_[at_]; }
  bool AtEnd() const { return current().type == Tokenizer::TYPE_END; }
  bool IsSymbol(absl::string_view symbol) const {
    return current().type == Tokenizer::TYPE_SYMBOL && current().text == symbol;
  }
  bool Take(absl::string_view symbol) {
    if (!IsSymbol(symbol)) return false;
    ++at_;
    return true;
  }

  bool RefuseHere(absl::string_view expected) {
    return builder_.Refuse(
        PositionOf(current()),
        absl::StrCat("expected ", expected, ", found ",
                     AtEnd() ? "the end of the text" : absl::StrCat("'", current().text, "'")));
  }

  // Up to `close`, which is taken; "": up to the end of the text.
  bool ParseEntries(absl::string_view close) {
    while (true) {
      if (close.empty() ? AtEnd() : Take(close)) return true;
      if (current().type != Tokenizer::TYPE_IDENTIFIER) {
        return RefuseHere(close.empty() ? std::string("the name of a field")
                                        : absl::StrCat("the name of a field, or '", close, "'"));
      }
      if (!builder_.Name(current().text, PositionOf(current()))) return false;
      ++at_;
      const bool colon = Take(":");
      if (!ParseAny(colon)) return false;
      if (!Take(",")) Take(";");
    }
  }

  bool ParseAny(bool colon) {
    if (IsSymbol("{") || IsSymbol("<")) return ParseGroup();
    if (IsSymbol("[")) return ParseList();
    return colon ? ParseValue() : RefuseHere("':' and a value, or '{'");
  }

  bool ParseGroup() {
    if (!builder_.BeginGroup(PositionOf(current()))) return false;
    const bool brace = IsSymbol("{");
    ++at_;
    return ParseEntries(brace ? "}" : ">") && builder_.End();
  }

  bool ParseList() {
    if (!builder_.BeginList(PositionOf(current()))) return false;
    ++at_;
    if (Take("]")) return builder_.End();
    while (true) {
      // A list of lists is of no use to any field, but is taken in so that it can be refused.
      if (!ParseAny(/*colon=*/true)) return false;
      if (Take("]")) return builder_.End();
      if (!Take(",")) return RefuseHere("',' or ']'");
    }
  }

  bool ParseValue() {
    TextNode node;
    node.kind = TextNode::Kind::kValue;
    node.position = PositionOf(current());
    if (current().type == Tokenizer::TYPE_STRING) {
      node.may_be_text = true;
      for (; current().type == Tokenizer::TYPE_STRING; ++at_) {
        Tokenizer::ParseStringAppend(current().text, &node.value);
      }
      return builder_.Add(std::move(node));
    }
    if (Take("-")) node.value = "-";
    switch (current().type) {
      case Tokenizer::TYPE_INTEGER:
      case Tokenizer::TYPE_FLOAT:
        absl::StrAppend(&node.value, Number());
        ++at_;
        TakeUnit(node.value);
        break;
      case Tokenizer::TYPE_IDENTIFIER:
        absl::StrAppend(&node.value, current().text);
        ++at_;
        break;
      default:
        return RefuseHere("a value");
    }
    return builder_.Add(std::move(node));
  }

  // In decimal and without C's suffix.
  std::string Number() const {
    std::string text = current().text;
    if (current().type == Tokenizer::TYPE_FLOAT) {
      if (absl::EndsWithIgnoreCase(text, "f")) text.pop_back();
      return text;
    }
    uint64_t value = 0;
    if (text.size() > 1 && text[0] == '0' &&
        Tokenizer::ParseInteger(text, std::numeric_limits<uint64_t>::max(), &value)) {
      return absl::StrCat(value);
    }
    return text;
  }

  // A word after a number belongs to it, unless it names the next field.
  void TakeUnit(std::string& value) {
    if (current().type != Tokenizer::TYPE_IDENTIFIER) return;
    const Tokenizer::Token& next = tokens_[at_ + 1];
    if (next.type == Tokenizer::TYPE_SYMBOL &&
        (next.text == ":" || next.text == "{" || next.text == "<" || next.text == "[")) {
      return;
    }
    absl::StrAppend(&value, current().text);
    ++at_;
  }

  TextTreeBuilder builder_;
  std::vector<Tokenizer::Token> tokens_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<TextNode> ParseTextproto(const std::string& text, const std::string& origin) {
  return TextprotoParser(text, origin).Parse();
}

}  // namespace muster
