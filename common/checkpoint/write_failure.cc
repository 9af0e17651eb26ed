#include "common/checkpoint/write_failure.h"

namespace muster {

bool MayBeWrittenLater(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsPermissionDenied(status) ||
         absl::IsUnavailable(status) || absl::IsNotFound(status) || absl::IsAlreadyExists(status);
}

}  // namespace muster
