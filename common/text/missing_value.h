#ifndef MUSTER_COMMON_TEXT_MISSING_VALUE_H_
#define MUSTER_COMMON_TEXT_MISSING_VALUE_H_

#include "absl/strings/string_view.h"

namespace muster {

// Returns true if a field of a table, without the spaces around it, stands for no value: it is
// empty, `?`, `-`, `--`, `.`, or, in any case, NA, N/A, #N/A, #NA, <NA>, NaN, -NaN, null or none.
bool IsMissingValue(absl::string_view text);

// Returns the same for a label, except that `-`, `--`, `.` and none are labels: as one of several
// texts they often name a class.
bool IsMissingLabel(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_MISSING_VALUE_H_
