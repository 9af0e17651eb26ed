#ifndef MUSTER_COMMON_SEARCH_NEXT_STEP_H_
#define MUSTER_COMMON_SEARCH_NEXT_STEP_H_

#include <cstdint>

#include "common/search/ranking.h"
#include "common/search/search_step.h"
#include "proto/search.pb.h"

namespace muster {

// Returns the next step of a running search; call again after it has been recorded. A trial that
// may be promoted is (see halving.h); if there is none, a new one begins. Random search and grids
// have one rung, so none is promoted. At most `parallel` jobs are under way, and no job begins that
// could take the search beyond `max_steps`. REQUIRES: valid.
SearchStep NextStep(const v1::SearchRecord& record);

// Returns the number of trials of a search: `trials`, unless its algorithm says it where that is 0.
// REQUIRES: valid.
uint64_t NumberOfTrials(const v1::SearchSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_NEXT_STEP_H_
