#include "client/init/json_data.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

constexpr size_t kJsonLinesLookedAt = 20;

// Returns true if each of the first lines that are not blank is a JSON object.
bool IsJsonLines(absl::string_view text) {
  size_t objects = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    const bool names_a_field =
        absl::StartsWith(absl::StripLeadingAsciiWhitespace(line.substr(1)), "\"");
    if (line.front() != '{' || line.back() != '}' || !names_a_field) return false;
    if (++objects == kJsonLinesLookedAt) return true;
  }
  return objects > 0;
}

}  // namespace

absl::Status CheckIsNoJson(const std::string& path, absl::string_view text) {
  const bool lines = IsJsonLines(text);
  bool named_so = false;
  for (const absl::string_view ending : {".json", ".jsonl", ".ndjson"}) {
    named_so = named_so || absl::EndsWithIgnoreCase(path, ending);
  }
  if (!lines && !named_so) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, lines ? " has a JSON object in each line" : " is named like JSON",
      ", which training does not read. To predict a field, make a table of it: jq -r '[.FIELD, "
      ".OTHER] | @csv' < FILE > TABLE.csv; to learn the texts in a field, make a text: jq -r "
      ".FIELD "
      "< FILE > TEXT.txt"));
}

}  // namespace muster
