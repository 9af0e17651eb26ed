#ifndef MUSTER_COMMON_JOB_VALIDATION_NAME_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_NAME_VALIDATOR_H_

#include <cstddef>

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

inline constexpr size_t kMostLabels = 32;
inline constexpr size_t kMostLabelNameBytes = 63;
inline constexpr size_t kMostLabelValueBytes = 256;
inline constexpr size_t kMostDescriptionBytes = 4096;

// Checks a job's labels and the length of its description, and that these, its name, owner and
// namespace can be shown as they are: a control character in them would break lists and logs into
// lines, or steer the terminal that shows them. A description may have line breaks and tabs.
// InvalidArgument names the field, and the character and its place.
absl::Status ValidateNames(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_NAME_VALIDATOR_H_
