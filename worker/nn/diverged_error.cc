#include "worker/nn/diverged_error.h"

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

absl::Status Diverged(absl::string_view where, absl::string_view what) {
  return absl::OutOfRangeError(absl::StrCat("diverged", where, ": ", what,
                                            "; lower the learning rate or clip the gradient"));
}

}  // namespace

absl::Status DivergedError(uint64_t clock, absl::string_view what) {
  return Diverged(absl::StrCat(" at step ", clock + 1), what);
}

absl::Status DivergedError(absl::string_view what) { return Diverged("", what); }

}  // namespace muster
