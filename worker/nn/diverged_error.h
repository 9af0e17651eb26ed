#ifndef MUSTER_WORKER_NN_DIVERGED_ERROR_H_
#define MUSTER_WORKER_NN_DIVERGED_ERROR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Returns the error that ends a job whose training has diverged: OutOfRange. `what` says what is
// not finite: in the step at `clock` or, without one, in what the caller computed.
absl::Status DivergedError(uint64_t clock, absl::string_view what);
absl::Status DivergedError(absl::string_view what);

// Returns whether an error is one of these.
bool IsDiverged(const absl::Status& status);

}  // namespace muster

#endif  // MUSTER_WORKER_NN_DIVERGED_ERROR_H_
