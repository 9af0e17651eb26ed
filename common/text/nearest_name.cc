#include "common/text/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"

namespace muster {
namespace {

constexpr size_t kFewestPrefixCharacters = 3;

std::string Folded(std::string_view name) {
  std::string folded(name);
  for (char& c : folded) c = c == '-' ? '_' : absl::ascii_tolower(static_cast<unsigned char>(c));
  return folded;
}

// Returns the fewest insertions, deletions, replacements and exchanges of neighbours that make b of
// a, with no character in two of them. Row i of the table has the distances from the first i
// characters of a to each beginning of b; only three rows are needed at a time.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> NearestName(std::string_view wrong,
                                       absl::Span<const std::string> right) {
  if (wrong.empty()) return std::nullopt;
  const std::string typed = Folded(wrong);
  const size_t most_edits = std::max<size_t>(1, typed.size() / 3);
  const std::string* nearest = nullptr;
  size_t fewest = most_edits + 1;
  const std::string* longer = nullptr;
  for (const std::string& name : right) {
    const size_t difference =
        name.size() > typed.size() ? name.size() - typed.size() : typed.size() - name.size();
    const std::string folded = Folded(name);
    if (name.size() > typed.size() && typed.size() >= kFewestPrefixCharacters &&
        folded.starts_with(typed) && (longer == nullptr || name.size() < longer->size())) {
      longer = &name;
    }
    // All characters replaced would be another name, not a slip of the finger.
    if (difference > most_edits || name.size() <= difference) continue;
    const size_t edits = EditDistance(typed, folded);
    if (edits < fewest && edits < std::max(name.size(), typed.size())) {
      fewest = edits;
      nearest = &name;
    }
  }
  if (nearest == nullptr) nearest = longer;
  if (nearest == nullptr) return std::nullopt;
  return *nearest;
}

}  // namespace muster
