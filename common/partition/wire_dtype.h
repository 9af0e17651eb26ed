#ifndef MUSTER_COMMON_PARTITION_WIRE_DTYPE_H_
#define MUSTER_COMMON_PARTITION_WIRE_DTYPE_H_

#include "absl/status/statusor.h"
#include "common/tensor/dtype.h"

namespace muster {

// Returns the element type that an UpdateSpec.WireType names; f32 if unspecified. InvalidArgument:
// this version does not know the value.
absl::StatusOr<DType> WireDType(int wire_type);

// Returns the WireType of a type. REQUIRES: kF32, kBf16 or kF16.
int WireTypeOf(DType type);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_WIRE_DTYPE_H_
