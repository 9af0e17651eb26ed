#include "common/checkpoint/checkpoint_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr absl::string_view kForms =
    "write JOB@CLOCK, as in j1@40, JOB@best for the one of the best evaluation, or JOB for the "
    "last one";

}  // namespace

absl::StatusOr<CheckpointName> ParseCheckpointName(absl::string_view text) {
  const size_t at = text.find('@');
  CheckpointName name;
  name.job_id = std::string(text.substr(0, at));
  if (name.job_id.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" names no job; ", kForms));
  }
  if (at == absl::string_view::npos) return name;
  const absl::string_view digits = text.substr(at + 1);
  if (digits == "best") {
    name.best = true;
    return name;
  }
  uint64_t clock = 0;
  // SimpleAtoi alone takes signs and blanks too.
  if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &clock)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" has \"", digits, "\" after @, which is no clock; ", kForms));
  }
  name.clock = clock;
  return name;
}

}  // namespace muster
