#ifndef MUSTER_COMMON_SEARCH_BRACKETS_H_
#define MUSTER_COMMON_SEARCH_BRACKETS_H_

#include <cstdint>
#include <vector>

namespace muster {

namespace v1 {
class SearchSpec;
}  // namespace v1

// A bracket of Hyperband: trials `first_trial` (counted from 1) to `first_trial + trials - 1`, each
// of which has up to `level + 1` rungs. The search may end before all of them have begun.
struct Bracket {
  // s in the paper: at level 0 all trials run to the job's end.
  int level = 0;
  uint64_t first_trial = 1;
  uint64_t trials = 0;
};

// Returns the reduction factor. REQUIRES: the search has Hyperband.
uint64_t BracketFactor(const v1::SearchSpec& spec);

// Returns the bracket of a trial. REQUIRES: a valid search by Hyperband.
Bracket BracketOf(const v1::SearchSpec& spec, uint64_t trial);

// Returns the steps at which the rungs of a bracket's trials end. REQUIRES: as above, and `level`
// is at most the greatest.
std::vector<uint64_t> BracketRungSteps(const v1::SearchSpec& spec, int level);

// Returns the greatest level: the last whose first rung has at least min_steps. REQUIRES: as above.
int GreatestLevel(const v1::SearchSpec& spec);

// Returns the number of trials of all brackets together, from the greatest level to 0; numbers
// beyond 2^32 count as 2^32 per bracket. REQUIRES: as above.
uint64_t TrialsOfAllBrackets(const v1::SearchSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_BRACKETS_H_
