#include "common/chat_template/syntax/template_lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/chat_template/syntax/string_literal.h"
#include "common/chat_template/syntax/template_error.h"
#include "common/chat_template/values/python_text.h"

namespace muster {
namespace {

using Kind = TemplateToken::Kind;

bool IsDigit(char letter) { return absl::ascii_isdigit(static_cast<unsigned char>(letter)); }

bool IsNameLetter(char letter) {
  return absl::ascii_isalnum(static_cast<unsigned char>(letter)) || letter == '_';
}

// Longer ones first.
constexpr std::array<absl::string_view, 26> kSigns = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

class Lexer {
 public:
  explicit Lexer(absl::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<TemplateToken>> Run() {
    while (at_ < source_.size()) {
      const size_t tag = FindTag();
      if (tag == absl::string_view::npos) {
        AddText(source_.substr(at_));
        break;
      }
      MUSTER_RETURN_IF_ERROR(LexTag(tag));
    }
    Add(Kind::kEnd, source_.size());
    return std::move(tokens_);
  }

 private:
  absl::string_view rest() const { return source_.substr(at_); }

  void Add(Kind kind, size_t offset, absl::string_view text = "") {
    tokens_.push_back({kind, offset, std::string(text)});
  }

  void AddText(absl::string_view text) {
    if (!text.empty()) Add(Kind::kText, at_, text);
  }

  size_t FindTag() const {
    for (size_t i = source_.find('{', at_); i != absl::string_view::npos;
         i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() && absl::StrContains("{%#", source_[i + 1])) return i;
    }
    return absl::string_view::npos;
  }

  // Returns the sign right after a tag's two characters: '-', '+' or a space for none.
  char SignAt(size_t offset) const {
    if (offset >= source_.size() || (source_[offset] != '-' && source_[offset] != '+')) return ' ';
    return source_[offset];
  }

  // Adds the text before a tag, without what the tag takes away.
  void AddTextBefore(size_t tag, bool prints) {
    absl::string_view text = source_.substr(at_, tag - at_);
    const char sign = SignAt(tag + 2);
    if (sign == '-') {
      text = Strip(text, Side::kRight);
    } else if (sign != '+' && !prints) {
      const size_t line_end = text.rfind('\n');
      const size_t line = line_end == absl::string_view::npos ? 0 : line_end + 1;
      if ((line > 0 || line_starting_) && Strip(text.substr(line)).empty()) {
        text = text.substr(0, line);
      }
    }
    AddText(text);
  }

  // Moves past a tag's end, "%}" and its like, and the whitespace that it takes.
  // REQUIRES: AtEndOf(end).
  void PassEnd(absl::string_view end, bool takes_line_end) {
    const bool strips = rest()[0] == '-';
    const bool keeps = rest()[0] == '+';
    if (strips || keeps) ++at_;
    at_ += end.size();
    if (strips) {
      at_ = source_.size() - Strip(rest(), Side::kLeft).size();
    } else if (takes_line_end && !keeps && absl::StartsWith(rest(), "\n")) {
      ++at_;
    }
    line_starting_ = source_[at_ - 1] == '\n';
  }

  bool AtEndOf(absl::string_view end, bool takes_plus) const {
    return absl::StartsWith(rest(), end) || absl::StartsWith(rest(), absl::StrCat("-", end)) ||
           (takes_plus && absl::StartsWith(rest(), absl::StrCat("+", end)));
  }

  absl::Status LexTag(size_t tag) {
    const char kind = source_[tag + 1];
    if (kind == '#') return LexComment(tag);
    if (kind == '%' && BeginsRaw(tag)) return LexRaw(tag);
    const bool prints = kind == '{';
    AddTextBefore(tag, prints);
    at_ = tag + 2 + (SignAt(tag + 2) == ' ' ? 0 : 1);
    Add(prints ? Kind::kPrintBegin : Kind::kBlockBegin, tag);
    const absl::string_view end = prints ? "}}" : "%}";
    std::string open;
    while (true) {
      if (open.empty() && AtEndOf(end, !prints)) {
        Add(prints ? Kind::kPrintEnd : Kind::kBlockEnd, at_);
        PassEnd(end, !prints);
        return absl::OkStatus();
      }
      if (at_ == source_.size()) {
        return TemplateError(source_, tag,
                             absl::StrCat("the tag that begins here has no end; "
                                          "close it with '",
                                          end, "'"));
      }
      MUSTER_RETURN_IF_ERROR(LexToken(open));
    }
  }

  absl::Status LexComment(size_t tag) {
    AddTextBefore(tag, /*prints=*/false);
    const size_t begin = tag + 2 + (SignAt(tag + 2) == ' ' ? 0 : 1);
    const size_t end = source_.find("#}", begin);
    if (end == absl::string_view::npos) {
      return TemplateError(source_, tag, "the comment that begins here has no end; add '#}'");
    }
    const bool sign = end > begin && (source_[end - 1] == '-' || source_[end - 1] == '+');
    at_ = sign ? end - 1 : end;
    PassEnd("#}", /*takes_line_end=*/true);
    return absl::OkStatus();
  }

  // Returns where a tag of this one word has its end, "%}" with its sign; npos if it is another.
  size_t EndOfWordTag(size_t tag, absl::string_view word, bool takes_plus) const {
    Lexer ahead(source_);
    ahead.at_ = tag + 2 + (SignAt(tag + 2) == ' ' ? 0 : 1);
    ahead.SkipSpace();
    if (!absl::StartsWith(ahead.rest(), word)) return absl::string_view::npos;
    ahead.at_ += word.size();
    ahead.SkipSpace();
    return ahead.AtEndOf("%}", takes_plus) ? ahead.at_ : absl::string_view::npos;
  }

  bool BeginsRaw(size_t tag) const {
    return EndOfWordTag(tag, "raw", /*takes_plus=*/false) != absl::string_view::npos;
  }

  absl::Status LexRaw(size_t tag) {
    AddTextBefore(tag, /*prints=*/false);
    at_ = EndOfWordTag(tag, "raw", /*takes_plus=*/false);
    PassEnd("%}", /*takes_line_end=*/false);
    for (size_t end_tag = source_.find("{%", at_); end_tag != absl::string_view::npos;
         end_tag = source_.find("{%", end_tag + 2)) {
      const size_t end = EndOfWordTag(end_tag, "endraw", /*takes_plus=*/true);
      if (end == absl::string_view::npos) continue;
      AddTextBefore(end_tag, /*prints=*/false);
      at_ = end;
      PassEnd("%}", /*takes_line_end=*/true);
      return absl::OkStatus();
    }
    return TemplateError(source_, tag, "'raw' begins here and has no end; add '{% endraw %}'");
  }

  void SkipSpace() { at_ = source_.size() - Strip(rest(), Side::kLeft).size(); }

  // Lexes one token within a tag. `open` are the brackets that are open.
  absl::Status LexToken(std::string& open) {
    const size_t before = at_;
    SkipSpace();
    if (at_ != before) return absl::OkStatus();
    const char first = source_[at_];
    if (IsDigit(first)) return LexNumber();
    if (IsNameLetter(first)) {
      size_t end = at_;
      while (end < source_.size() && IsNameLetter(source_[end])) ++end;
      Add(Kind::kName, at_, source_.substr(at_, end - at_));
      at_ = end;
      return absl::OkStatus();
    }
    if (first == '\'' || first == '"') return LexString(first);
    const auto sign = std::find_if(kSigns.begin(), kSigns.end(), [this](absl::string_view each) {
      return absl::StartsWith(rest(), each);
    });
    if (sign == kSigns.end()) {
      return TemplateError(source_, at_,
                           "a tag has no such character outside of strings; remove it");
    }
    MUSTER_RETURN_IF_ERROR(Balance(*sign, open));
    Add(Kind::kSign, at_, *sign);
    at_ += sign->size();
    return absl::OkStatus();
  }

  absl::Status Balance(absl::string_view sign, std::string& open) const {
    static constexpr absl::string_view kOpening = "([{";
    static constexpr absl::string_view kClosing = ")]}";
    if (absl::StrContains(kOpening, sign)) open.push_back(sign[0]);
    const size_t closes = kClosing.find(sign);
    if (closes == absl::string_view::npos) return absl::OkStatus();
    if (open.empty() || open.back() != kOpening[closes]) {
      return TemplateError(source_, at_,
                           absl::StrCat("'", sign,
                                        "' closes no bracket here; remove it, or open "
                                        "one before"));
    }
    open.pop_back();
    return absl::OkStatus();
  }

  // Moves past digits with single '_' between them. REQUIRES: one is at `end`.
  void PassDigits(size_t& end) const {
    while (end < source_.size() &&
           (IsDigit(source_[end]) ||
            (source_[end] == '_' && end + 1 < source_.size() && IsDigit(source_[end + 1])))) {
      ++end;
    }
  }

  bool DigitAt(size_t offset) const { return offset < source_.size() && IsDigit(source_[offset]); }

  // Moves past a fraction and an exponent, if there are any.
  void PassFraction(size_t& end) const {
    if (end < source_.size() && source_[end] == '.' && DigitAt(end + 1)) {
      ++end;
      PassDigits(end);
    }
    if (end == source_.size() || (source_[end] != 'e' && source_[end] != 'E')) return;
    size_t exponent = end + 1;
    if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) {
      ++exponent;
    }
    if (!DigitAt(exponent)) return;
    PassDigits(exponent);
    end = exponent;
  }

  absl::Status LexNumber() {
    size_t integer_end = at_;
    PassDigits(integer_end);
    size_t end = integer_end;
    // After a '.', digits are an index.
    if (at_ == 0 || source_[at_ - 1] != '.') PassFraction(end);
    TemplateToken token{end == integer_end ? Kind::kInteger : Kind::kFloat, at_};
    const std::string digits = absl::StrReplaceAll(source_.substr(at_, end - at_), {{"_", ""}});
    const bool leading_zero =
        digits.find_first_not_of('0') > 0 && digits.find_first_not_of('0') != std::string::npos;
    if (token.kind == Kind::kFloat) {
      if (!absl::SimpleAtod(digits, &token.number)) token.number = 0;
    } else if (leading_zero || !absl::SimpleAtoi(digits, &token.integer)) {
      return TemplateError(source_, at_,
                           "this is no integer of 64 bits without leading zeros; write one");
    }
    tokens_.push_back(std::move(token));
    at_ = end;
    return absl::OkStatus();
  }

  absl::Status LexString(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) {
      return TemplateError(source_, at_, "the string that begins here has no end; close it");
    }
    const auto text = Unescape(source_.substr(at_ + 1, end - at_ - 1));
    if (!text.ok()) return TemplateError(source_, at_, text.status().message());
    Add(Kind::kString, at_, *text);
    at_ = end + 1;
    return absl::OkStatus();
  }

  const absl::string_view source_;
  size_t at_ = 0;
  // True if what came last ended a line.
  bool line_starting_ = true;
  std::vector<TemplateToken> tokens_;
};

}  // namespace

std::string NormalizedTemplate(absl::string_view text) {
  std::string source = absl::StrReplaceAll(text, {{"\r\n", "\n"}, {"\r", "\n"}});
  if (absl::EndsWith(source, "\n")) source.pop_back();
  return source;
}

absl::StatusOr<std::vector<TemplateToken>> LexTemplate(absl::string_view source) {
  return Lexer(source).Run();
}

}  // namespace muster
