#ifndef MUSTER_COMMON_SEARCH_SEARCH_STEP_H_
#define MUSTER_COMMON_SEARCH_SEARCH_STEP_H_

#include <cstdint>

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

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_SEARCH_STEP_H_
