#include "common/tensor/wire_elements.h"

#include <cstddef>
#include <cstdint>

#include "common/tensor/half.h"

namespace muster {
void ReadElements(DType type, const Payload& payload, absl::Span<float> values) {
  if (type == DType::kF32) return payload.CopyTo(values.data());
  float* at = values.data();
  std::byte straddling[sizeof(uint16_t)];
  bool half_there = false;
  for (Payload::Span span : payload.spans()) {
    if (span.empty()) continue;
    if (half_there) {
      straddling[1] = span[0];
      span.remove_prefix(1);
      WidenHalf(type, straddling, {at++, 1});
    }
    const size_t whole = span.size() / sizeof(uint16_t);
    WidenHalf(type, span.data(), {at, whole});
    at += whole;
    half_there = span.size() % sizeof(uint16_t) != 0;
    if (half_there) straddling[0] = span.back();
  }
}

}  // namespace muster
