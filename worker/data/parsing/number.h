#ifndef MUSTER_WORKER_DATA_PARSING_NUMBER_H_
#define MUSTER_WORKER_DATA_PARSING_NUMBER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Parses all of `text` as a decimal number that a float can hold, in any locale of the process.
// InvalidArgument: the text is no number, NaN or infinite, or the number lies beyond the largest
// float. The message is the rest of a sentence that begins with the value ("is not a number; …").
absl::StatusOr<double> ParseNumber(absl::string_view text);

// Parses all of `text` as digits without a sign. InvalidArgument as ParseNumber.
absl::StatusOr<uint64_t> ParseIndex(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_PARSING_NUMBER_H_
