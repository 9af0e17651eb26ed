#include "worker/data/sampling/steps.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Keeps positions in the stream of examples within a signed 64-bit number.
constexpr double kMostPositions = 0x1p62;

// Returns the examples that the whole job sees; nullopt if the job counts steps.
std::optional<double> ExamplesOf(const v1::StopSpec& stop, const TrainingSize& size) {
  // Allows for the rounding of fractions such as 0.1.
  if (stop.epochs() > 0) return stop.epochs() * static_cast<double>(size.examples) * (1 - 1e-12);
  if (stop.tokens() == 0) return std::nullopt;
  return std::ceil(static_cast<double>(stop.tokens()) /
                   static_cast<double>(std::max<int64_t>(1, size.tokens_each)));
}

// Names the field that ends the job, for messages.
std::string EndOf(const v1::StopSpec& stop) {
  if (stop.steps() > 0) return absl::StrCat("stop.steps is ", stop.steps());
  if (stop.epochs() > 0) return absl::StrCat("stop.epochs is ", stop.epochs());
  return absl::StrCat("stop.tokens is ", stop.tokens());
}

}  // namespace

absl::StatusOr<int64_t> TotalSteps(const v1::StopSpec& stop, const TrainingSize& size,
                                   int64_t batch_size, const DataPosition& begin) {
  if (!(stop.epochs() >= 0) || std::isinf(stop.epochs())) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop.epochs is ", stop.epochs(), "; it must be a number, and at least 0"));
  }
  if (stop.evaluate_only()) return 0;
  if ((stop.steps() > 0) + (stop.epochs() > 0) + (stop.tokens() > 0) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("stop.steps is ", stop.steps(), ", stop.epochs ",
                                                   stop.epochs(), " and stop.tokens ",
                                                   stop.tokens(), "; set exactly one of them"));
  }
  if (size.examples == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        EndOf(stop),
        ", yet there are no training examples; lower data.holdout, or set stop.evaluate_only "
        "instead"));
  }
  if (batch_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size is ", batch_size, "; it must be at least 1"));
  }
  if (batch_size > size.examples) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size is ", batch_size, ", more than the ", size.examples,
                     " training examples; lower it to at most that, or train on more data"));
  }
  const double first = static_cast<double>(begin.clock);
  const double seen = static_cast<double>(begin.examples);
  const std::optional<double> examples = ExamplesOf(stop, size);
  const double steps = examples.has_value()
                           ? first + std::ceil(std::max(0.0, *examples - seen) / batch_size)
                           : static_cast<double>(stop.steps());
  if (seen + std::max(0.0, steps - first) * static_cast<double>(batch_size) >= kMostPositions) {
    return absl::InvalidArgumentError(absl::StrCat(EndOf(stop), ", which asks for ", steps,
                                                   " steps of ", batch_size,
                                                   " examples, beyond 2^62 examples in all; lower "
                                                   "it"));
  }
  return std::max<int64_t>(
      1, examples.has_value() ? static_cast<int64_t>(steps) : static_cast<int64_t>(stop.steps()));
}

}  // namespace muster
