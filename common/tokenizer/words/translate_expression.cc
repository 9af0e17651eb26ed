#include "common/tokenizer/words/translate_expression.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::string_view kWordCharacters = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

// Goes over an expression once, from left to right.
class ExpressionTranslator {
 public:
  explicit ExpressionTranslator(absl::string_view expression) : in_(expression) {}

  absl::StatusOr<std::string> Translate() {
    while (at_ < in_.size()) {
      switch (in_[at_]) {
        case '\\':
          MUSTER_RETURN_IF_ERROR(Escape(/*in_class=*/false));
          break;
        case '[':
          MUSTER_RETURN_IF_ERROR(Class());
          break;
        case '(':
          MUSTER_RETURN_IF_ERROR(Group());
          break;
        case '{':
          MUSTER_RETURN_IF_ERROR(Interval());
          break;
        case '^':
          return Refuse("an anchor");
        default:
          out_.push_back(in_[at_++]);
      }
    }
    return std::move(out_);
  }

 private:
  absl::Status Refuse(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("the expression has ", what, " at byte ", at_, ", which is not understood"));
  }

  absl::string_view Rest() const { return in_.substr(at_); }

  // Copies what begins here up to this character.
  absl::Status CopyTo(char last) {
    const size_t end = in_.find(last, at_);
    if (end == absl::string_view::npos) return Refuse("an unfinished escape");
    absl::StrAppend(&out_, in_.substr(at_, end + 1 - at_));
    at_ = end + 1;
    return absl::OkStatus();
  }

  absl::Status Escape(bool in_class) {
    if (at_ + 1 == in_.size()) return Refuse("an unfinished escape");
    const char kind = in_[at_ + 1];
    if (!absl::ascii_isalnum(static_cast<unsigned char>(kind))) {
      // A character outside of ASCII stands for itself.
      if (absl::ascii_isascii(static_cast<unsigned char>(kind))) out_.push_back('\\');
      out_.push_back(kind);
      at_ += 2;
      return absl::OkStatus();
    }
    const auto replace = [this](absl::string_view text) {
      absl::StrAppend(&out_, text);
      at_ += 2;
      return absl::OkStatus();
    };
    switch (kind) {
      case 's':
        return replace("\\p{White_Space}");
      case 'S':
        return replace("\\P{White_Space}");
      case 'w':
        return replace(in_class ? std::string(kWordCharacters)
                                : absl::StrCat("[", kWordCharacters, "]"));
      case 'W':
        if (in_class) return Refuse("\\W in a class");
        return replace(absl::StrCat("[^", kWordCharacters, "]"));
      case 'v':
        return replace("\\x0b");
      case 'd':
      case 'D':
      case 'r':
      case 'n':
      case 't':
      case 'f':
        return replace(in_.substr(at_, 2));
      case 'p':
      case 'P':
        if (!absl::StartsWith(in_.substr(at_ + 2), "{")) return Refuse("an unfinished escape");
        return CopyTo('}');
      case 'x':
        if (absl::StartsWith(in_.substr(at_ + 2), "{")) return CopyTo('}');
        return Hexadecimal(2);
      case 'u':
        return Hexadecimal(4);
      default:
        return Refuse("an escaped letter or digit");
    }
  }

  absl::Status Hexadecimal(size_t digits) {
    const absl::string_view number = in_.substr(at_ + 2, digits);
    for (const char digit : number) {
      if (!absl::ascii_isxdigit(static_cast<unsigned char>(digit))) {
        return Refuse("an unfinished escape");
      }
    }
    if (number.size() < digits) return Refuse("an unfinished escape");
    absl::StrAppend(&out_, "\\x{", number, "}");
    at_ += 2 + digits;
    return absl::OkStatus();
  }

  absl::Status Class() {
    out_.push_back(in_[at_++]);
    if (absl::StartsWith(Rest(), "^")) out_.push_back(in_[at_++]);
    if (absl::StartsWith(Rest(), "]")) return Refuse("an empty class");
    for (int depth = 1; depth > 0;) {
      if (at_ == in_.size()) return Refuse("an unfinished class");
      if (absl::StartsWith(Rest(), "&&")) return Refuse("an intersection of classes");
      if (absl::StartsWith(Rest(), "[:")) {
        MUSTER_RETURN_IF_ERROR(CopyTo(']'));
        continue;
      }
      const char next = in_[at_];
      if (next == '\\') {
        MUSTER_RETURN_IF_ERROR(Escape(/*in_class=*/true));
        continue;
      }
      ++at_;
      if (next == '[') {
        if (absl::StartsWith(Rest(), "^") || absl::StartsWith(Rest(), "]")) {
          return Refuse("a class in a class");
        }
        ++depth;
      } else if (next == ']' && --depth > 0) {
        continue;
      } else {
        out_.push_back(next);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Group() {
    for (const absl::string_view known :
         {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?i)", "(?-i:", "(?-i)"}) {
      if (!absl::StartsWith(Rest(), known)) continue;
      absl::StrAppend(&out_, known);
      at_ += known.size();
      return absl::OkStatus();
    }
    if (absl::StartsWith(Rest(), "(?") || absl::StartsWith(Rest(), "(*")) {
      return Refuse("a group with a name, an option or a verb");
    }
    // Nothing refers to a group.
    absl::StrAppend(&out_, "(?:");
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Interval() {
    const size_t end = in_.find('}', at_);
    const absl::string_view inside =
        end == absl::string_view::npos ? "x" : in_.substr(at_ + 1, end - at_ - 1);
    const bool is_interval = !inside.empty() && inside != "," &&
                             inside.find_first_not_of("0123456789,") == absl::string_view::npos;
    if (!is_interval) {
      out_ += "\\{";
      ++at_;
      return absl::OkStatus();
    }
    // There it repeats the interval; to PCRE2 it means that nothing is given back.
    if (absl::StartsWith(in_.substr(end + 1), "+")) return Refuse("a \"+\" behind an interval");
    absl::StrAppend(&out_, "{", inside[0] == ',' ? "0" : "", inside, "}");
    at_ = end + 1;
    return absl::OkStatus();
  }

  const absl::string_view in_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> TranslateExpression(absl::string_view expression) {
  return ExpressionTranslator(expression).Translate();
}

std::string ExpressionOfText(absl::string_view text) {
  std::string expression;
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if (absl::ascii_isascii(value)) {
      absl::StrAppend(&expression, "\\x{", absl::Hex(value), "}");
    } else {
      expression.push_back(byte);
    }
  }
  return expression;
}

}  // namespace muster
