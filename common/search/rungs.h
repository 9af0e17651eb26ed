#ifndef MUSTER_COMMON_SEARCH_RUNGS_H_
#define MUSTER_COMMON_SEARCH_RUNGS_H_

#include <cstdint>
#include <vector>

namespace muster {

namespace v1 {
class SearchSpec;
}  // namespace v1

// Returns whether a trial may have several jobs, each of which goes on from the one before. Their
// last steps are the search's own.
bool HasRungs(const v1::SearchSpec& spec);

// Returns the step at which each rung of a trial ends:
//
//   ASHA        min_steps * reduction_factor^k as long as that is below the job's last step, then
//               the last step
//   Hyperband   the rungs of the bracket with the most (BracketRungSteps)
//   others      the job's last step; 0 if the job does not end by `stop.steps`
//
// REQUIRES: valid.
std::vector<uint64_t> RungSteps(const v1::SearchSpec& spec);

// Returns the rungs of one trial, counted from 1: by Hyperband those of its bracket, which are the
// last of RungSteps; otherwise all. REQUIRES: valid.
std::vector<uint64_t> TrialRungSteps(const v1::SearchSpec& spec, uint64_t trial);

// Returns ASHA's reduction factor. REQUIRES: the search has ASHA.
uint64_t ReductionFactor(const v1::SearchSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_RUNGS_H_
