#include "client/init/libffm_guess.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace muster {

std::optional<LibffmGuess> GuessLibffm(absl::string_view text) {
  LibffmGuess guess;
  bool features = false;
  absl::flat_hash_set<uint64_t> fields;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\v\f\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    double label = 0;
    if (!absl::SimpleAtod(words[0], &label) || label < -1 || label != std::floor(label)) {
      return std::nullopt;
    }
    fields.clear();
    for (size_t i = 1; i < words.size(); ++i) {
      const std::vector<absl::string_view> parts = absl::StrSplit(words[i], ':');
      uint64_t field = 0, feature = 0;
      double value = 0;
      if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &field) ||
          !absl::SimpleAtoi(parts[1], &feature) || !absl::SimpleAtod(parts[2], &value)) {
        return std::nullopt;
      }
      features = true;
      guess.one_per_field &= value == 1 && fields.insert(field).second;
    }
    ++guess.records;
    guess.largest_label = std::max(guess.largest_label, label);
  }
  return features ? std::make_optional(guess) : std::nullopt;
}

}  // namespace muster
