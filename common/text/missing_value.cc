#include "common/text/missing_value.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"

namespace muster {
namespace {

// Longer texts are values, which most fields of a table show at once.
constexpr size_t kLongest = 4;

constexpr absl::string_view kNeverLabels[] = {"",    "?",    "NA",  "N/A",  "#N/A",
                                              "#NA", "<NA>", "NaN", "-NaN", "null"};
constexpr absl::string_view kMaybeLabels[] = {"-", "--", ".", "none"};

template <size_t size>
bool IsOneOf(absl::string_view text, const absl::string_view (&words)[size]) {
  return std::any_of(std::begin(words), std::end(words),
                     [text](absl::string_view word) { return absl::EqualsIgnoreCase(text, word); });
}

}  // namespace

bool IsMissingValue(absl::string_view text) {
  return text.size() <= kLongest && (IsOneOf(text, kNeverLabels) || IsOneOf(text, kMaybeLabels));
}

bool IsMissingLabel(absl::string_view text) {
  return text.size() <= kLongest && IsOneOf(text, kNeverLabels);
}

}  // namespace muster
