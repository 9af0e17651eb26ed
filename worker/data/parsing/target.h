#ifndef MUSTER_WORKER_DATA_PARSING_TARGET_H_
#define MUSTER_WORKER_DATA_PARSING_TARGET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Parses the label of an example as a number to predict. `what` is the label in a message, such as
// "the label". InvalidArgument, naming file and line: the label is missing, or no number that a
// float can hold.
absl::StatusOr<double> ParseTarget(absl::string_view text, absl::string_view what,
                                   const std::string& path, int64_t line);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_PARSING_TARGET_H_
