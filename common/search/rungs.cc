#include "common/search/rungs.h"

#include "proto/search.pb.h"

namespace muster {

uint64_t ReductionFactor(const v1::SearchSpec& spec) {
  const uint64_t factor = spec.asha().reduction_factor();
  return factor == 0 ? 4 : factor;
}

std::vector<uint64_t> RungSteps(const v1::SearchSpec& spec) {
  const uint64_t last = spec.job().stop().steps();
  std::vector<uint64_t> steps;
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

}  // namespace muster
