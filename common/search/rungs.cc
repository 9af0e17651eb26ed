#include "common/search/rungs.h"

#include "common/search/brackets.h"
#include "proto/search.pb.h"

namespace muster {

bool HasRungs(const v1::SearchSpec& spec) { return spec.has_asha() || spec.has_hyperband(); }

uint64_t ReductionFactor(const v1::SearchSpec& spec) {
  const uint64_t factor = spec.asha().reduction_factor();
  return factor == 0 ? 4 : factor;
}

std::vector<uint64_t> RungSteps(const v1::SearchSpec& spec) {
  const uint64_t last = spec.job().stop().steps();
  std::vector<uint64_t> steps;
  if (spec.has_hyperband()) return BracketRungSteps(spec, GreatestLevel(spec));
  if (spec.has_asha()) {
    const uint64_t factor = ReductionFactor(spec);
    for (uint64_t step = spec.asha().min_steps(); step < last; step *= factor) {
      steps.push_back(step);
      // The next product is at least the last step, and may not fit.
      if (step > (last - 1) / factor) break;
    }
  }
  steps.push_back(last);
  return steps;
}

std::vector<uint64_t> TrialRungSteps(const v1::SearchSpec& spec, uint64_t trial) {
  if (!spec.has_hyperband()) return RungSteps(spec);
  return BracketRungSteps(spec, BracketOf(spec, trial).level);
}

}  // namespace muster
