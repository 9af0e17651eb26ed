#ifndef MUSTER_COMMON_SEARCH_TRIAL_DRAWS_H_
#define MUSTER_COMMON_SEARCH_TRIAL_DRAWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/search.pb.h"

namespace muster {

// Returns what trial `trial`, counted from 1, draws: for each parameter whose condition holds one
// value, in order. A random draw is a pure function of seed, trial and field, so draws are the same
// in any order and after any restart, and a further parameter changes none of the others. Returns
// nothing beyond the last point of a grid. A grid's draw takes time in proportion to `trial`.
// REQUIRES: valid.
std::optional<std::vector<v1::Draw>> TrialDraws(const v1::SearchSpec& spec, uint64_t trial);

// Returns the number of points of a grid, or `most` if it has more. REQUIRES: valid.
uint64_t GridPoints(const v1::SearchSpec& spec, uint64_t most);

// Returns the number of values of a choice or an integer. REQUIRES: the parameter is one of these.
uint64_t NumberOfValues(const v1::ParameterSpec& parameter);

// Returns a value of a choice or an integer, counted from 0. REQUIRES: `index` is below
// NumberOfValues.
std::string ValueAt(const v1::ParameterSpec& parameter, uint64_t index);

// Returns a number with as many digits as it takes to read it back.
std::string RealText(double value);

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_TRIAL_DRAWS_H_
