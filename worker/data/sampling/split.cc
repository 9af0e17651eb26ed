#include "worker/data/sampling/split.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {

absl::StatusOr<Split> SplitExamples(int64_t examples, double holdout) {
  // Written so that NaN fails too.
  if (!(holdout >= 0 && holdout <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.holdout is ", holdout, "; it must lie between 0 and 1"));
  }
  const int64_t held_out = std::llround(holdout * static_cast<double>(examples));
  const Split split = {examples - held_out, held_out};
  if (holdout > 0 && holdout < 1 && (split.training == 0 || split.held_out == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.holdout is ", holdout, ", which of ", examples, " examples leaves ",
                     split.training, " to train on and ", split.held_out,
                     " to evaluate on; choose it so that both have at least 1, or take 0 or 1"));
  }
  return split;
}

}  // namespace muster
