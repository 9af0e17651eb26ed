#include "common/text/did_you_mean.h"

#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/text/nearest_name.h"

namespace muster {
namespace {

// Longest word looked up: no name is as long, but a file may hold words of any length.
constexpr size_t kLongestWord = 100;

}  // namespace

std::string DidYouMean(const std::string& word, const std::vector<std::string>& names) {
  if (word.size() > kLongestWord) return "";
  const std::optional<std::string> near = NearestName(word, names);
  return near.has_value() ? absl::StrCat("; did you mean \"", *near, "\"?") : "";
}

}  // namespace muster
