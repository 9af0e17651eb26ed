#ifndef MUSTER_COMMON_SEARCH_NEXT_STEP_H_
#define MUSTER_COMMON_SEARCH_NEXT_STEP_H_

#include <cstdint>

#include "proto/search.pb.h"

namespace muster {

// The next step of a search. It follows from the stored table alone, so a coordinator that was
// killed decides the same again.
struct SearchStep {
  enum class Kind {
    // A new trial begins; `trial` is one more than there are.
    kBegin,
    // A trial goes on to `rung`.
    kPromote,
    // Nothing can begin before a job ends, or the search is paused or has ended.
    kWait,
    // All is done: the search has completed.
    kComplete,
    // More trials have failed than may.
    kFail,
  };
  Kind kind = Kind::kWait;
  // Counts from 1.
  uint64_t trial = 0;
  int rung = 0;
};

// Returns the next step of a running search; call again after it has been recorded. This is get_job
// of asynchronous successive halving (Li and others, 2018, algorithm 2): from the highest rung but
// one down, the best trial that is among the best 1/reduction_factor of those with an objective at
// that rung, and has not gone on, is promoted; if there is none, a new trial begins. Of equal
// objectives the earlier trial is better. Failed trials have no place at the rung at which they
// failed. Random search and grids are ASHA with one rung. At most `parallel` jobs are under way,
// and no job begins that could take the search beyond `max_steps`. REQUIRES: valid.
SearchStep NextStep(const v1::SearchRecord& record);

// Returns whether greater objectives are better. REQUIRES: valid.
bool Maximizes(const v1::SearchSpec& spec);

// Returns the best trial, counted from 1, among those that came furthest; 0: none has an objective.
// REQUIRES: valid.
uint64_t BestTrial(const v1::SearchRecord& record);

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_NEXT_STEP_H_
