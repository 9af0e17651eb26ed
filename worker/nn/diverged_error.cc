#include "worker/nn/diverged_error.h"

#include "absl/strings/str_cat.h"

namespace muster {

absl::Status DivergedError(uint64_t clock, absl::string_view what) {
  return absl::OutOfRangeError(absl::StrCat("diverged at step ", clock + 1, ": ", what,
                                            "; lower the learning rate or clip the gradient"));
}

}  // namespace muster
