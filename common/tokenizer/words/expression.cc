#include "common/tokenizer/words/expression.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

// Far above what an expression for words takes in a window.
constexpr uint32_t kMostSteps = 1'000'000;
constexpr uint32_t kMostDepth = 100'000;
constexpr uint32_t kMostHeapKib = 64 << 10;
constexpr size_t kLongestPattern = size_t{16} << 10;
constexpr uint32_t kMostNestedGroups = 64;

// Stands for a byte that is not UTF-8: neither letter nor number nor space.
constexpr char kControlCharacter = '\x01';

std::string ReasonOf(int error) {
  char text[256] = "";
  pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof(text));
  return text;
}

}  // namespace

size_t CodePointBefore(absl::string_view text, size_t at) {
  constexpr size_t kMostContinuations = 3;
  if (at >= text.size()) return text.size();
  size_t begin = at;
  while (begin > 0 && at - begin < kMostContinuations && (text[begin] & 0xc0) == 0x80) --begin;
  // Continuations without a beginning are code points each.
  return begin + FirstCodePoint(text.substr(begin)).bytes > at ? begin : at;
}

absl::StatusOr<std::unique_ptr<const Expression>> Expression::Create(const std::string& pattern) {
  pcre2_compile_context* const context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_max_pattern_length(context, kLongestPattern);
  pcre2_set_parens_nest_limit(context, kMostNestedGroups);
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &place, context);
  pcre2_compile_context_free(context);
  if (code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("PCRE2 refuses the expression at byte ", place,
                                                   " of ", pattern.size(), ": ", ReasonOf(error)));
  }
  return absl::WrapUnique(new Expression(code));
}

Expression::Expression(pcre2_real_code_8* code)
    : code_(code), limits_(pcre2_match_context_create(nullptr)) {
  // Where there is no compiler for the processor, PCRE2 interprets.
  compiled_ = pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE) == 0;
  uint32_t behind = 0;
  pcre2_pattern_info(code_, PCRE2_INFO_MAXLOOKBEHIND, &behind);
  looks_behind_ = behind > 0;
  pcre2_set_match_limit(limits_, kMostSteps);
  pcre2_set_depth_limit(limits_, kMostDepth);
  pcre2_set_heap_limit(limits_, kMostHeapKib);
}

Expression::~Expression() {
  pcre2_match_context_free(limits_);
  pcre2_code_free(code_);
}

ExpressionMatcher::ExpressionMatcher(const Expression& expression)
    : expression_(expression), data_(pcre2_match_data_create(1, nullptr)) {}

ExpressionMatcher::~ExpressionMatcher() { pcre2_match_data_free(data_); }

void ExpressionMatcher::SetText(absl::string_view text) {
  text_ = text;
  window_begin_ = window_end_ = window_known_ = 0;
  for (size_t at = 0; at < text.size();) {
    uint64_t eight;
    if (at + sizeof(eight) <= text.size()) {
      memcpy(&eight, text.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const CodePoint next = FirstCodePoint(text.substr(at));
    if (next.value == kInvalidCodePoint) {
      if (text_.data() != changed_.data() || text_.size() != changed_.size()) {
        changed_.assign(text.data(), text.size());
        text_ = changed_;
      }
      changed_[at] = kControlCharacter;
    }
    at += next.bytes;
  }
}

std::optional<ExpressionMatcher::Match> ExpressionMatcher::FindWithin(size_t from, size_t end) {
  // The first one does less before and after each match.
  const auto match_code = expression_.compiled_ ? pcre2_jit_match : pcre2_match;
  const int found = match_code(expression_.code_, reinterpret_cast<PCRE2_SPTR>(text_.data()), end,
                               from, PCRE2_NO_UTF_CHECK, data_, expression_.limits_);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  Match match = {from, end};
  if (found >= 0) {
    const PCRE2_SIZE* const places = pcre2_get_ovector_pointer(data_);
    match = {places[0], places[1]};
  }
  if (match.end - match.begin > kLongestWord) {
    match.end = CodePointBefore(text_, match.begin + kLongestWord);
  }
  return match;
}

std::optional<ExpressionMatcher::Match> ExpressionMatcher::Find(size_t from) {
  // Most matches are within a window that is there already, far from its end.
  if (from >= window_begin_ && from < window_known_) {
    const std::optional<Match> match = FindWithin(from, window_end_);
    if (match.has_value() && match->end <= window_known_) return match;
  }
  while (true) {
    const bool cut = text_.size() - from > Expression::kWindowBytes;
    window_begin_ = from;
    window_end_ = cut ? CodePointBefore(text_, from + Expression::kWindowBytes) : text_.size();
    window_known_ = cut ? CodePointBefore(text_, from + kLongestWord) : text_.size();
    const std::optional<Match> match = FindWithin(from, window_end_);
    if (!cut) return match;
    if (!match.has_value()) {
      from = window_known_;
    } else if (match->begin > from && match->end > window_known_) {
      // The window may have cut the match: search again in one that begins where it does.
      from = match->begin;
    } else {
      return match;
    }
  }
}

}  // namespace muster
