#ifndef MUSTER_COMMON_SEARCH_RUNGS_H_
#define MUSTER_COMMON_SEARCH_RUNGS_H_

#include <cstdint>
#include <vector>

namespace muster {

namespace v1 {
class SearchSpec;
}  // namespace v1

// Returns the step at which each rung of a trial ends: min_steps * reduction_factor^k as long as
// that is below the job's last step, then the last step. Without ASHA there is one rung; its step
// is 0 if the job does not end by `stop.steps`. REQUIRES: valid.
std::vector<uint64_t> RungSteps(const v1::SearchSpec& spec);

// Returns ASHA's reduction factor. REQUIRES: the search has ASHA.
uint64_t ReductionFactor(const v1::SearchSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_RUNGS_H_
