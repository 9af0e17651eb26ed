#include "server/coordinator/history/loss_jumps.h"

#include <utility>

namespace muster {
namespace {

constexpr uint64_t kMostSteps = 100;
constexpr uint64_t kLeastSteps = 10;

}  // namespace

void LossJumps::Add(absl::Span<const SeriesPoint> losses) {
  if (factor_ == 0) return;
  for (const SeriesPoint& point : losses) {
    double sum = 0;
    for (const Loss& each : last_) sum += each.mean * static_cast<double>(each.steps);
    const double mean = steps_ == 0 ? 0 : sum / static_cast<double>(steps_);
    // The highest counts of several steps that were reported together.
    if (steps_ >= kLeastSteps && mean > 0 && point.max > factor_ * mean) {
      if (!jump_.has_value()) jump_ = {.step = point.first_step, .loss = point.max, .mean = mean};
      continue;
    }
    const uint64_t steps = point.last_step - point.first_step + 1;
    last_.push_back({.first_step = point.first_step, .steps = steps, .mean = point.mean});
    steps_ += steps;
    while (steps_ - last_.front().steps >= kMostSteps) {
      steps_ -= last_.front().steps;
      last_.pop_front();
    }
  }
}

std::optional<LossJump> LossJumps::Take() { return std::exchange(jump_, std::nullopt); }

void LossJumps::CutAfter(uint64_t clock) {
  jump_.reset();
  while (!last_.empty() && last_.back().first_step + last_.back().steps - 1 > clock) {
    steps_ -= last_.back().steps;
    last_.pop_back();
  }
}

}  // namespace muster
