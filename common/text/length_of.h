#ifndef MUSTER_COMMON_TEXT_LENGTH_OF_H_
#define MUSTER_COMMON_TEXT_LENGTH_OF_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Returns what an error may say of a text out of a file that a job names: "12 characters", not
// which. The error goes to the job's submitter, who may have no right to read the file. Bytes that
// are not UTF-8 count as a character each.
std::string LengthOf(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_LENGTH_OF_H_
