#ifndef MUSTER_COMMON_SEARCH_SEARCH_VALIDATOR_H_
#define MUSTER_COMMON_SEARCH_SEARCH_VALIDATOR_H_

#include <cstdint>

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class SearchSpec;
}  // namespace v1

inline constexpr uint64_t kMostTrials = 10000;
inline constexpr int kMostParameters = 64;

// Checks all of a search that can be judged without its trials: each parameter's field and values,
// conditions, the objective and the algorithm. The jobs of its trials are for ValidateJob.
// InvalidArgument names the field, its value and what would be right.
absl::Status ValidateSearch(const v1::SearchSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_SEARCH_VALIDATOR_H_
