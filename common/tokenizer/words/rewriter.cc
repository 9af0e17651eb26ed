#include "common/tokenizer/words/rewriter.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "absl/strings/match.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

// A file's rules must not make texts of any size: none that is meant for text makes 32 times as
// much of it.
constexpr size_t kMostGrowth = 32;
constexpr size_t kLeastRoom = size_t{4} << 10;

bool IsAscii(char byte) { return static_cast<unsigned char>(byte) < 0x80; }

// Returns whether a code point is the same in all forms, whatever stands beside it.
bool IsInert(uint32_t code_point) {
  // Hangul is composed by arithmetic.
  if (code_point >= 0x1100 && code_point <= 0x11ff) return false;
  if (code_point >= 0xac00 && code_point <= 0xd7a3) return false;
  const utf8proc_property_t* const property =
      utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
  return property->combining_class == 0 && property->decomp_seqindex == UINT16_MAX &&
         property->comb_index == UINT16_MAX;
}

void AppendNormalized(absl::string_view text, utf8proc_option_t options, std::string& out) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &made, options);
  if (bytes >= 0) {
    out.append(reinterpret_cast<const char*>(made), bytes);
  } else {
    // Valid UTF-8 fails only if it is too large for memory.
    out.append(text.data(), text.size());
  }
  free(made);
}

// Only what is not ASCII is normalized, with the ASCII character before it, which it may combine
// with; ASCII characters combine with nothing that stands before them.
void Normalize(absl::string_view text, Rewriter::Form form, std::string& out) {
  int options = UTF8PROC_STABLE;
  options |= form == Rewriter::Form::kNfc || form == Rewriter::Form::kNfkc ? UTF8PROC_COMPOSE
                                                                           : UTF8PROC_DECOMPOSE;
  if (form == Rewriter::Form::kNfkc || form == Rewriter::Form::kNfkd) options |= UTF8PROC_COMPAT;
  size_t at = 0;
  while (at < text.size()) {
    size_t ascii = at;
    while (ascii < text.size() && IsAscii(text[ascii])) ++ascii;
    if (ascii == text.size()) break;
    const size_t begin = ascii > at ? ascii - 1 : ascii;
    out.append(text.data() + at, begin - at);
    size_t end = ascii;
    bool inert = true;
    bool valid = true;
    while (end < text.size() && !IsAscii(text[end])) {
      const CodePoint next = FirstCodePoint(text.substr(end));
      valid = next.value != kInvalidCodePoint;
      if (!valid) break;
      inert = inert && IsInert(next.value);
      end += next.bytes;
    }
    if (inert) {
      out.append(text.data() + begin, end - begin);
    } else {
      AppendNormalized(text.substr(begin, end - begin), static_cast<utf8proc_option_t>(options),
                       out);
    }
    if (!valid) out.push_back(text[end++]);
    at = end;
  }
  out.append(text.data() + at, text.size() - at);
}

// Replaces a text wherever it stands, until there are more than `most` bytes.
void ReplaceAll(absl::string_view text, const Rewriter::Replace& step, size_t most,
                std::string& out) {
  size_t at = 0;
  while (out.size() <= most) {
    const size_t found = step.from.empty() ? absl::string_view::npos : text.find(step.from, at);
    if (found == absl::string_view::npos) break;
    out.append(text.data() + at, found - at);
    out += step.to;
    at = found + step.from.size();
  }
  out.append(text.data() + at, text.size() - at);
}

// Replaces what an expression matches, in the same way.
void ReplaceAll(absl::string_view text, const Rewriter::ReplaceMatches& step, size_t most,
                std::string& out) {
  ExpressionMatcher matcher(*step.expression);
  matcher.SetText(text);
  size_t at = 0;
  for (size_t from = 0; from <= text.size() && out.size() <= most;) {
    const std::optional<ExpressionMatcher::Match> match = matcher.Find(from);
    if (!match.has_value()) break;
    out.append(text.data() + at, match->begin - at);
    out += step.to;
    at = match->end;
    from = match->end;
    if (match->end == match->begin) {
      from += from < text.size() ? FirstCodePoint(text.substr(from)).bytes : 1;
    }
  }
  out.append(text.data() + at, text.size() - at);
}

absl::string_view Stripped(absl::string_view text, const Rewriter::Strip& step) {
  while (step.left && !text.empty()) {
    const CodePoint first = FirstCodePoint(text);
    if (first.value == kInvalidCodePoint || !IsWhiteSpace(first.value)) break;
    text.remove_prefix(first.bytes);
  }
  while (step.right && !text.empty()) {
    const size_t last = CodePointBefore(text, text.size() - 1);
    const CodePoint code_point = FirstCodePoint(text.substr(last));
    if (code_point.value == kInvalidCodePoint || !IsWhiteSpace(code_point.value)) break;
    text = text.substr(0, last);
  }
  return text;
}

}  // namespace

bool IsWhiteSpace(uint32_t code_point) {
  if (code_point < 0x80) return code_point == ' ' || (code_point >= 0x9 && code_point <= 0xd);
  if (code_point == 0x85) return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

absl::string_view Rewriter::Apply(absl::string_view text, TextPlace place,
                                  std::string& buffer) const {
  const size_t most = kMostGrowth * text.size() + kLeastRoom;
  std::string next;
  for (const Step& step : steps_) {
    if (text.size() > most) break;
    next.clear();
    if (const auto* strip = std::get_if<Strip>(&step)) {
      const absl::string_view kept = Stripped(text, *strip);
      next.assign(kept.data(), kept.size());
    } else if (const auto* form = std::get_if<Form>(&step)) {
      Normalize(text, *form, next);
    } else if (const auto* replace = std::get_if<Replace>(&step)) {
      ReplaceAll(text, *replace, most, next);
    } else if (const auto* matches = std::get_if<ReplaceMatches>(&step)) {
      ReplaceAll(text, *matches, most, next);
    } else if (const auto* map = std::get_if<std::shared_ptr<const PrecompiledMap>>(&step)) {
      (*map)->Apply(text, most, next);
    } else {
      const Prepend& prepend = std::get<Prepend>(step);
      if (place == TextPlace::kGoesOn || text.empty() ||
          (prepend.unless_there && absl::StartsWith(text, prepend.text))) {
        continue;
      }
      next = prepend.text;
      next.append(text.data(), text.size());
    }
    buffer.swap(next);
    text = buffer;
  }
  return text;
}

bool Rewriter::keeps_divisions() const {
  return std::all_of(steps_.begin(), steps_.end(), [](const Step& step) {
    if (const auto* replace = std::get_if<Replace>(&step)) {
      // A single character is replaced wherever it stands.
      return !replace->from.empty() && FirstCodePoint(replace->from).bytes == replace->from.size();
    }
    return std::holds_alternative<Form>(step) || std::holds_alternative<Prepend>(step);
  });
}

size_t Rewriter::NextPlace(absl::string_view text, size_t at) const {
  const bool any = std::none_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return std::holds_alternative<Form>(step);
  });
  const auto is_inert = [](CodePoint next) {
    return next.value < 0x80 || (next.value != kInvalidCodePoint && IsInert(next.value));
  };
  while (at < text.size()) {
    const size_t begin = CodePointBefore(text, at);
    const CodePoint next = FirstCodePoint(text.substr(begin));
    if (begin == at && (any || at == 0)) return at;
    if (begin == at && is_inert(next) &&
        is_inert(FirstCodePoint(text.substr(CodePointBefore(text, at - 1))))) {
      return at;
    }
    at = begin + next.bytes;
  }
  return at;
}

bool Rewriter::changes_beginnings() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return std::holds_alternative<Prepend>(step); });
}

}  // namespace muster
