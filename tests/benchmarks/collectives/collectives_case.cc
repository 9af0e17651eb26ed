#include "tests/benchmarks/collectives/collectives_case.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace muster {

std::vector<CollectivesCase> CollectivesCases(CollectivesEffort effort) {
  if (effort == CollectivesEffort::kQuick) {
    return {{4 << 10, 50, 200}, {64 << 10, 20, 100}, {1 << 20, 3, 30},
            {4 << 20, 1, 20},   {16 << 20, 1, 5},    {64 << 20, 1, 5}};
  }
  return {{4 << 10, 10, 1000}, {64 << 10, 10, 500}, {1 << 20, 5, 200}, {4 << 20, 5, 60},
          {16 << 20, 3, 24},   {64 << 20, 2, 20},   {256 << 20, 2, 20}};
}

std::string FormatCases(const std::vector<CollectivesCase>& cases) {
  return absl::StrJoin(cases, ",", [](std::string* out, const CollectivesCase& one) {
    absl::StrAppend(out, one.bytes, ":", one.warm_up_calls, ":", one.calls);
  });
}

absl::StatusOr<std::vector<CollectivesCase>> ParseCases(const std::string& text) {
  std::vector<CollectivesCase> cases;
  for (const auto& word : absl::StrSplit(text, ',')) {
    const std::vector<std::string> fields = absl::StrSplit(word, ':');
    CollectivesCase one;
    if (fields.size() != 3 || !absl::SimpleAtoi(fields[0], &one.bytes) ||
        !absl::SimpleAtoi(fields[1], &one.warm_up_calls) ||
        !absl::SimpleAtoi(fields[2], &one.calls) || one.bytes < 4 || one.bytes % 4 != 0 ||
        one.warm_up_calls < 1 || one.calls < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", word,
                       "\" is not a case: expected bytes:warm_up_calls:calls, with "
                       "bytes a multiple of 4 and at least one call of each kind"));
    }
    cases.push_back(one);
  }
  return cases;
}

}  // namespace muster
