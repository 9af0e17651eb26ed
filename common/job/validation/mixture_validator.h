#ifndef MUSTER_COMMON_JOB_VALIDATION_MIXTURE_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_MIXTURE_VALIDATOR_H_

#include <string>

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class MixtureData;
class SequenceData;
}  // namespace v1

// Returns the first error of sequences, whose fields are called `field`.
absl::Status ValidateSequences(const std::string& field, const v1::SequenceData& sequences);

// Returns the first error of a mixture, by field, value and remedy: sources without a name, a path
// or a weight that makes sense, equal names, changes out of order or of sources that there are not.
absl::Status ValidateMixture(const v1::MixtureData& mixture);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_MIXTURE_VALIDATOR_H_
