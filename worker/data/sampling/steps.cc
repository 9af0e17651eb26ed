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

absl::Status TooManyExamples(const std::string& end) {
  return absl::InvalidArgumentError(
      absl::StrCat(end, ", which asks for more than 2^62 examples in all; lower it"));
}

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
                                   const StepBatches& batches, int64_t first_clock) {
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
  if (const int64_t smallest = batches.SizesFrom(first_clock).smallest; smallest < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size is ", smallest, "; it must be at least 1"));
  }
  if (const int64_t largest = batches.SizesFrom(first_clock).largest; largest > size.examples) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size is ", largest, ", more than the ", size.examples,
                     " training examples; lower it to at most that, or train on more data"));
  }
  constexpr int64_t kEndless = StepBatches::kEndless;
  const std::optional<double> examples = ExamplesOf(stop, size);
  if (examples.has_value() && *examples >= static_cast<double>(kEndless)) {
    return TooManyExamples(EndOf(stop));
  }
  const int64_t steps =
      examples.has_value()
          ? std::max(first_clock, batches.ClockAfter(static_cast<int64_t>(std::ceil(*examples))))
          : static_cast<int64_t>(std::min<uint64_t>(stop.steps(), kEndless));
  if (batches.At(std::max(first_clock, steps)).begin >= kEndless) {
    return TooManyExamples(EndOf(stop));
  }
  return std::max<int64_t>(1, steps);
}

}  // namespace muster
