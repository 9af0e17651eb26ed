#ifndef MUSTER_COMMON_PARTITION_WIRE_DTYPE_H_
#define MUSTER_COMMON_PARTITION_WIRE_DTYPE_H_

#include "absl/status/statusor.h"
#include "common/tensor/dtype.h"

namespace muster {

// The element type that an UpdateSpec.WireType names; left out, it is f32. InvalidArgument: a value
// that this version does not know.
absl::StatusOr<DType> WireDType(int wire_type);

// The way back. REQUIRES: kF32, kBf16 or kF16.
int WireTypeOf(DType type);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_WIRE_DTYPE_H_
