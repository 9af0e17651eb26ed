#ifndef MUSTER_COMMON_SEARCH_ALGORITHM_VALIDATOR_H_
#define MUSTER_COMMON_SEARCH_ALGORITHM_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class SearchSpec;
}  // namespace v1

// Checks the options of a search's algorithm, and that the job suits it. InvalidArgument names the
// field, its value and what would be right.
absl::Status ValidateAlgorithm(const v1::SearchSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_ALGORITHM_VALIDATOR_H_
