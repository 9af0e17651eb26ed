#ifndef MUSTER_WORKER_DATA_DATA_ERROR_H_
#define MUSTER_WORKER_DATA_DATA_ERROR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// A value out of a file as it can stand in a message: in single quotes, what cannot be printed
// escaped, cut after 40 bytes.
std::string Quote(absl::string_view value);

// InvalidArgument "path:line: message", the form that editors and terminals turn into a link.
absl::Status LineError(absl::string_view path, int64_t line, absl::string_view message);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATA_ERROR_H_
