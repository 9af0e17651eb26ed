#include "worker/data/steps.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Positions in the stream of examples stay within a signed 64-bit number.
constexpr double kMostPositions = 0x1p62;

}  // namespace

absl::StatusOr<int64_t> TotalSteps(const v1::StopSpec& stop, int64_t training_examples,
                                   int64_t batch_size, const DataPosition& begin) {
  if (!(stop.epochs() >= 0) || std::isinf(stop.epochs())) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop.epochs is ", stop.epochs(), "; it must be a number, and at least 0"));
  }
  if (stop.evaluate_only()) return 0;
  const bool by_steps = stop.steps() > 0;
  const bool by_epochs = stop.epochs() > 0;
  if (by_steps && by_epochs) {
    return absl::InvalidArgumentError(absl::StrCat("stop.steps is ", stop.steps(),
                                                   " and stop.epochs ", stop.epochs(),
                                                   "; set exactly one of them"));
  }
  if (training_examples == 0 && (by_steps || by_epochs)) {
    return absl::InvalidArgumentError(absl::StrCat(
        by_steps ? absl::StrCat("stop.steps is ", stop.steps())
                 : absl::StrCat("stop.epochs is ", stop.epochs()),
        ", yet there are no training examples; lower data.holdout, or set stop.evaluate_only "
        "instead"));
  }
  if (!by_steps && !by_epochs) {
    return absl::InvalidArgumentError(
        "stop.steps and stop.epochs are both 0; set exactly one of them");
  }
  if (batch_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size is ", batch_size, "; it must be at least 1"));
  }
  if (batch_size > training_examples) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size is ", batch_size, ", more than the ", training_examples,
                     " training examples; lower it to at most that, or train on more data"));
  }
  const double examples = static_cast<double>(training_examples);
  const double first = static_cast<double>(begin.clock);
  const double seen = static_cast<double>(begin.examples);
  // What is left to see, forgiving what a fraction such as 0.1 lacks in binary.
  const double left = std::max(0.0, stop.epochs() * examples * (1 - 1e-12) - seen);
  const double steps =
      by_steps ? static_cast<double>(stop.steps()) : first + std::ceil(left / batch_size);
  if (seen + std::max(0.0, steps - first) * static_cast<double>(batch_size) >= kMostPositions) {
    return absl::InvalidArgumentError(
        absl::StrCat(by_steps ? "stop.steps" : "stop.epochs", " asks for ", steps, " steps of ",
                     batch_size, " examples, beyond 2^62 examples in all; lower it"));
  }
  return std::max<int64_t>(
      1, by_steps ? static_cast<int64_t>(stop.steps()) : static_cast<int64_t>(steps));
}

}  // namespace muster
