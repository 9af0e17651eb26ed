#include "common/checkpoint/checkpoint_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace muster {

absl::StatusOr<CheckpointName> ParseCheckpointName(absl::string_view text) {
  const size_t at = text.find('@');
  CheckpointName name;
  name.job_id = std::string(text.substr(0, at));
  if (name.job_id.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" names no job; write JOB@CLOCK, or JOB for its last one"));
  }
  if (at == absl::string_view::npos) return name;
  const absl::string_view digits = text.substr(at + 1);
  uint64_t clock = 0;
  // SimpleAtoi alone takes signs and blanks too.
  if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &clock)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" has the clock \"", digits,
        "\", which is no number; write JOB@CLOCK, as in j1@40, or JOB for its last one"));
  }
  name.clock = clock;
  return name;
}

}  // namespace muster
