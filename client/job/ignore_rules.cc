#include "client/job/ignore_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/text/printable.h"

namespace muster {
namespace {

// Returns whether a pattern fits all of a text. Goes back to the last "*" alone, which is enough:
// whatever an earlier one could take besides, the last one can.
bool FitsWhole(absl::string_view pattern, absl::string_view text) {
  size_t at = 0, star = absl::string_view::npos, after_star = 0;
  for (size_t i = 0; i < text.size();) {
    const bool is_star = at < pattern.size() && pattern[at] == '*';
    if (is_star) {
      star = at++;
      after_star = i;
    } else if (at < pattern.size() &&
               (pattern[at] == text[i] || (pattern[at] == '?' && text[i] != '/'))) {
      ++at;
      ++i;
    } else if (star != absl::string_view::npos && text[after_star] != '/') {
      at = star + 1;
      i = ++after_star;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

}  // namespace

absl::StatusOr<IgnoreRules> IgnoreRules::Parse(absl::string_view text, absl::string_view origin) {
  IgnoreRules rules;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '!' || absl::StrContains(line, "**") ||
        line.find_first_of("[\\") != absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(origin, ":", number, ": \"", PrintableLine(line),
                       "\" is no pattern; only * and ? have a meaning here: no ! at the "
                       "beginning, no **, [ or backslash"));
    }
    Rule rule;
    rule.folders_alone = absl::ConsumeSuffix(&line, "/");
    rule.is_path = absl::StrContains(line, '/');
    absl::ConsumePrefix(&line, "/");
    rule.pattern = std::string(line);
    rules.rules_.push_back(std::move(rule));
  }
  return rules;
}

bool IgnoreRules::Fits(absl::string_view path, Kind kind) const {
  // npos + 1 is 0.
  const absl::string_view name = path.substr(path.rfind('/') + 1);
  return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) {
    if (rule.folders_alone && kind != Kind::kFolder) return false;
    return FitsWhole(rule.pattern, rule.is_path ? path : name);
  });
}

}  // namespace muster
