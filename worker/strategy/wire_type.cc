#include "worker/strategy/wire_type.h"

#include <cstddef>

#include "worker/collectives/float16.h"

namespace muster {

void ToBf16(absl::Span<const float> values, absl::Span<uint16_t> bits) {
  for (size_t i = 0; i < values.size(); ++i) bits[i] = Bf16OfF32(values[i]);
}

void FromBf16(absl::Span<const uint16_t> bits, absl::Span<float> values) {
  for (size_t i = 0; i < bits.size(); ++i) values[i] = F32OfBf16(bits[i]);
}

}  // namespace muster
