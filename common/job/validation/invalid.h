#ifndef MUSTER_COMMON_JOB_VALIDATION_INVALID_H_
#define MUSTER_COMMON_JOB_VALIDATION_INVALID_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {

// Returns InvalidArgument, such as "workers is 0; it must be at least 1", for a field of a job that
// has a value it must not have. `remedy` is a clause that says what to do instead.
inline absl::Status Invalid(absl::string_view field, const absl::AlphaNum& value,
                            absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; ", remedy));
}

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_INVALID_H_
