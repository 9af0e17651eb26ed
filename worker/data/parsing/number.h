#ifndef MUSTER_WORKER_DATA_PARSING_NUMBER_H_
#define MUSTER_WORKER_DATA_PARSING_NUMBER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Reads all of `text` as a decimal number that a float can hold. InvalidArgument, whose message is
// the part of a sentence that follows the value ("is not a number; …"): it is none, it is NaN or
// infinite, or it lies beyond the largest float. Independent of the process's locale.
absl::StatusOr<double> ParseNumber(absl::string_view text);

// Reads all of `text` as digits without sign. InvalidArgument, as above.
absl::StatusOr<uint64_t> ParseIndex(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_PARSING_NUMBER_H_
