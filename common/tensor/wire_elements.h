#ifndef MUSTER_COMMON_TENSOR_WIRE_ELEMENTS_H_
#define MUSTER_COMMON_TENSOR_WIRE_ELEMENTS_H_

#include "absl/types/span.h"
#include "common/base/payload.h"
#include "common/tensor/dtype.h"

namespace muster {

// Payloads of little-endian elements of kF32, kBf16 or kF16, as transports deliver them: in spans
// of any length and alignment; elements may straddle spans.

// Sets values[i] to element i, as f32. REQUIRES: payload.size() == SizeOf(type) * values.size().
void ReadElements(DType type, const Payload& payload, absl::Span<float> values);

}  // namespace muster

#endif  // MUSTER_COMMON_TENSOR_WIRE_ELEMENTS_H_
