#ifndef MUSTER_WORKER_STRATEGY_WIRE_TYPE_H_
#define MUSTER_WORKER_STRATEGY_WIRE_TYPE_H_

#include <cstdint>

#include "absl/types/span.h"

namespace muster {

// bf16 is the upper half of an f32: the same range, 8 bits of precision. These are its bits.

// Rounds to the nearest, halves to even; an infinity stays one, a NaN a NaN. A relative error of at
// most 2^-8 / 2. REQUIRES: equal sizes.
void ToBf16(absl::Span<const float> values, absl::Span<uint16_t> bits);

// Exact. REQUIRES: equal sizes.
void FromBf16(absl::Span<const uint16_t> bits, absl::Span<float> values);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_WIRE_TYPE_H_
