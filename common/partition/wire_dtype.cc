#include "common/partition/wire_dtype.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"

namespace muster {

absl::StatusOr<DType> WireDType(int wire_type) {
  switch (wire_type) {
    case v1::UpdateSpec::WIRE_TYPE_UNSPECIFIED:
    case v1::UpdateSpec::F32:
      return DType::kF32;
    case v1::UpdateSpec::BF16:
      return DType::kBf16;
    case v1::UpdateSpec::F16:
      return DType::kF16;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("type is ", wire_type, "; it must be F32, BF16 or F16"));
  }
}

int WireTypeOf(DType type) {
  switch (type) {
    case DType::kBf16:
      return v1::UpdateSpec::BF16;
    case DType::kF16:
      return v1::UpdateSpec::F16;
    default:
      return v1::UpdateSpec::F32;
  }
}

}  // namespace muster
