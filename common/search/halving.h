#ifndef MUSTER_COMMON_SEARCH_HALVING_H_
#define MUSTER_COMMON_SEARCH_HALVING_H_

#include <cstdint>
#include <optional>

#include "common/search/search_step.h"

namespace muster {

namespace v1 {
class SearchRecord;
}  // namespace v1

// The trial to promote next by asynchronous successive halving (get_job of Li and others, 2018,
// algorithm 2): from the highest rung but one down, the best trial that is among the best
// 1/reduction_factor of those with an objective at that rung, and has not gone on. Returns nothing
// where there is none: a new trial may begin. REQUIRES: a valid search by ASHA.
std::optional<SearchStep> PromoteByAsha(const v1::SearchRecord& record);

// The trial to promote next by Hyperband (Li and others, 2018, algorithm 1). A bracket's rung is
// decided once all its trials at that rung are over: of n trials that the bracket began with, the
// best n / reduction_factor^(k + 1), rounded down, of those with an objective at rung k go on.
// Brackets do not wait for one another. In the last bracket n is the number of trials that the
// search still has for it; where a change of `trials` makes it greater, trials that have gone on
// stay. Returns nothing where there is none: a new trial may begin. REQUIRES: a valid search by
// Hyperband; `trials` is the number of trials that it is to have.
std::optional<SearchStep> PromoteByHyperband(const v1::SearchRecord& record, uint64_t trials);

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_HALVING_H_
