#include "worker/nn/diverged_error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// Tells these errors from others of their code.
constexpr char kDivergedPayload[] = "muster.Diverged";

absl::Status Diverged(absl::string_view where, absl::string_view what) {
  absl::Status status = absl::OutOfRangeError(absl::StrCat(
      "diverged", where, ": ", what, "; lower the learning rate or clip the gradient"));
  status.SetPayload(kDivergedPayload, absl::Cord());
  return status;
}

}  // namespace

absl::Status DivergedError(uint64_t clock, absl::string_view what) {
  return Diverged(absl::StrCat(" at step ", clock + 1), what);
}

absl::Status DivergedError(absl::string_view what) { return Diverged("", what); }

bool IsDiverged(const absl::Status& status) {
  return status.GetPayload(kDivergedPayload).has_value();
}

}  // namespace muster
