#include "common/text/nearest_word.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace muster {
namespace {

// What comes from a command line or a file may be of any length; no known word is as long.
constexpr size_t kLongestWord = 100;

std::string Folded(absl::string_view word) {
  return absl::AsciiStrToLower(absl::StrReplaceAll(word, {{"-", "_"}}));
}

// Optimal string alignment: Levenshtein's distance with swaps of neighbours. O(|a| |b|).
size_t EditDistance(absl::string_view a, absl::string_view b) {
  // Rows i-2, i-1 and i of the table of distances between beginnings of a and b.
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({changed, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string NearestWord(absl::string_view word, const std::vector<std::string>& known) {
  if (word.empty() || word.size() > kLongestWord) return "";
  const std::string folded = Folded(word);
  const size_t most = std::max<size_t>(1, folded.size() / 3);
  std::string nearest;
  size_t least = most + 1;
  for (const std::string& each : known) {
    const size_t distance = EditDistance(folded, Folded(each));
    // A word of which no letter is right is not meant.
    if (distance >= least || distance >= each.size()) continue;
    least = distance;
    nearest = each;
  }
  return nearest;
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known) {
  const std::string nearest = NearestWord(word, known);
  return nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?");
}

}  // namespace muster
