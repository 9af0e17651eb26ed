#ifndef MUSTER_COMMON_SEARCH_RANKING_H_
#define MUSTER_COMMON_SEARCH_RANKING_H_

#include <cstdint>
#include <vector>

namespace muster {

namespace v1 {
class SearchRecord;
class SearchSpec;
class SearchTrial;
}  // namespace v1

// Returns whether greater objectives are better. REQUIRES: valid.
bool Maximizes(const v1::SearchSpec& spec);

// Returns the best trial, counted from 1, among those that came furthest; 0: none has an objective.
// REQUIRES: valid.
uint64_t BestTrial(const v1::SearchRecord& record);

// Returns whether a job of the trial is not over.
bool HasJob(const v1::SearchTrial& trial);

// Returns whether the trial's job of a rung has ended with an objective.
bool HasObjective(const v1::SearchTrial& trial, int rung);

// Returns the indices in [first, end) of the trials with an objective at a rung, best first; of
// equal ones the earlier trial is better. REQUIRES: 0 <= first, and `end` is at most the number of
// trials.
std::vector<int> Ranked(const v1::SearchRecord& record, int rung, int first, int end);

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_RANKING_H_
