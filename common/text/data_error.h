#ifndef MUSTER_COMMON_TEXT_DATA_ERROR_H_
#define MUSTER_COMMON_TEXT_DATA_ERROR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Returns a name from a job's specification as a message can show it: in single quotes, with
// control characters and what is not UTF-8 written out (PrintableLine), cut after 40 bytes. Not for
// a file's content (common/text/length_of.h).
std::string Quote(absl::string_view value);

// Returns InvalidArgument "path:line: message", a form that editors and terminals turn into a link.
absl::Status LineError(absl::string_view path, int64_t line, absl::string_view message);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_DATA_ERROR_H_
