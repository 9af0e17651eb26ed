#ifndef MUSTER_WORKER_NN_DIVERGED_ERROR_H_
#define MUSTER_WORKER_NN_DIVERGED_ERROR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Returns the error for a step in which `what` is not finite: OutOfRange.
absl::Status DivergedError(uint64_t clock, absl::string_view what);

}  // namespace muster

#endif  // MUSTER_WORKER_NN_DIVERGED_ERROR_H_
