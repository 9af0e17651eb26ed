#include "server/coordinator/lifecycle/divergence.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/job/adjustments.h"
#include "common/step/step_batches.h"
#include "server/coordinator/job/training_data.h"

namespace muster {
namespace {

constexpr double kDefaultFactorOfReturn = 0.5;

uint32_t CountReturns(const v1::JobRecord& record) {
  return std::count_if(record.adjustments().begin(), record.adjustments().end(),
                       [](const v1::Adjustment& each) { return each.returned(); });
}

}  // namespace

bool MayReturn(const v1::JobRecord& record) {
  return record.divergences() < record.spec().divergence().max_returns();
}

void NoteRisenLoss(uint64_t step, v1::JobRecord& record) {
  for (v1::CheckpointRecord& checkpoint : *record.mutable_checkpoints()) {
    if (checkpoint.clock() + 1 < step || !checkpoint.damage().empty()) continue;
    checkpoint.set_damage(
        absl::StrCat("it was made when the training loss had risen, at step ", step));
  }
}

v1::Adjustment AdjustmentOfReturn(const v1::JobRecord& before, const v1::JobRecord& back,
                                  uint64_t reached, absl::string_view why) {
  const v1::DivergenceSpec& spec = before.spec().divergence();
  const uint64_t clock = back.start_clock();
  v1::Adjustment next = Adjustments(back.adjustments()).At(clock);
  next.set_clock(clock);
  const double factor = spec.rate_factor() == 0 ? kDefaultFactorOfReturn : spec.rate_factor();
  const uint32_t returns = 1 + CountReturns(before) - CountReturns(back);
  next.set_rate_factor(next.rate_factor() * std::pow(factor, returns));
  next.clear_skipped_examples();
  if (spec.skip_examples()) {
    const StepBatches batches = DecidedBatches(before);
    next.set_skipped_examples(batches.At(static_cast<int64_t>(std::max(reached, clock))).begin -
                              batches.At(static_cast<int64_t>(clock)).begin);
  }
  next.set_reason(absl::StrCat("went back since ", why));
  next.set_returned(true);
  return next;
}

std::string FailureAfterReturns(const v1::JobRecord& record, absl::string_view why) {
  const uint32_t most = record.spec().divergence().max_returns();
  return absl::StrCat("the job has diverged, and has gone back ", most,
                      most == 1 ? " time" : " times",
                      " before, as often as it may (divergence.max_returns): ", why,
                      "; lower optimizer.learning_rate or clip the gradient "
                      "(clipping.by_global_norm), warm up longer (schedule.warmup_steps), or look "
                      "at the examples of that step");
}

}  // namespace muster
