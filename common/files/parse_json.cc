#include "common/files/parse_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// Of the deepest value, as brackets outside of strings say; right for all that is JSON.
size_t DepthOf(absl::string_view text) {
  size_t depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, const std::string& origin,
                                         absl::string_view expected) {
  if (const size_t depth = DepthOf(text); depth > kMostJsonDepth) {
    return absl::InvalidArgumentError(absl::StrCat(origin, " has values ", depth,
                                                   " levels deep, at most ", kMostJsonDepth,
                                                   " can be; expected ", expected));
  }
  nlohmann::json json =
      nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat(origin, " is not JSON; expected ", expected));
  }
  return json;
}

}  // namespace muster
