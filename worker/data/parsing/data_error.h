#ifndef MUSTER_WORKER_DATA_PARSING_DATA_ERROR_H_
#define MUSTER_WORKER_DATA_PARSING_DATA_ERROR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// A name that a job gives, as it can stand in a message: in single quotes, what cannot be printed
// escaped, cut after 40 bytes. What a file holds is not quoted (common/text/length_of.h).
std::string Quote(absl::string_view value);

// InvalidArgument "path:line: message", the form that editors and terminals turn into a link.
absl::Status LineError(absl::string_view path, int64_t line, absl::string_view message);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_PARSING_DATA_ERROR_H_
