#include "common/files/parse_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// Counted by brackets and commas outside of strings, which is right for all JSON.
struct Extent {
  // Depth of the deepest value.
  size_t depth = 0;
  // Upper bound on the number of values: an empty array counts for two.
  size_t values = 1;
};

Extent ExtentOf(absl::string_view text) {
  Extent extent;
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      extent.depth = std::max(extent.depth, ++depth);
      ++extent.values;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    } else if (c == ',') {
      ++extent.values;
    }
  }
  return extent;
}

template <typename Json>
absl::StatusOr<Json> ParseBounded(absl::string_view text, const std::string& origin,
                                  absl::string_view expected) {
  const Extent extent = ExtentOf(text);
  if (extent.depth > kMostJsonDepth) {
    return absl::InvalidArgumentError(absl::StrCat(origin, " has values ", extent.depth,
                                                   " levels deep, at most ", kMostJsonDepth,
                                                   " can be; expected ", expected));
  }
  if (extent.values > kMostJsonValues) {
    return absl::InvalidArgumentError(absl::StrCat(origin, " has ", extent.values,
                                                   " values, at most ", kMostJsonValues,
                                                   " can be; expected ", expected));
  }
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat(origin, " is not JSON; expected ", expected));
  }
  return json;
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, const std::string& origin,
                                         absl::string_view expected) {
  return ParseBounded<nlohmann::json>(text, origin, expected);
}

absl::StatusOr<nlohmann::ordered_json> ParseOrderedJson(absl::string_view text,
                                                        const std::string& origin,
                                                        absl::string_view expected) {
  return ParseBounded<nlohmann::ordered_json>(text, origin, expected);
}

}  // namespace muster
