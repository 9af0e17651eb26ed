#include "common/tensor/wire_elements.h"

#include <cstddef>
#include <cstdint>

#include "common/tensor/half.h"

namespace muster {
namespace {

using Kernel = void (*)(DType type, const std::byte* bits, absl::Span<float> values);

void ForHalves(DType type, const Payload& payload, absl::Span<float> values, Kernel kernel) {
  float* at = values.data();
  std::byte straddling[sizeof(uint16_t)];
  bool half_there = false;
  for (Payload::Piece piece : payload.pieces()) {
    if (piece.empty()) continue;
    if (half_there) {
      straddling[1] = piece[0];
      piece.remove_prefix(1);
      kernel(type, straddling, {at++, 1});
    }
    const size_t whole = piece.size() / sizeof(uint16_t);
    kernel(type, piece.data(), {at, whole});
    at += whole;
    half_there = piece.size() % sizeof(uint16_t) != 0;
    if (half_there) straddling[0] = piece.back();
  }
}

}  // namespace

void ReadElements(DType type, const Payload& payload, absl::Span<float> values) {
  if (type == DType::kF32) return payload.CopyTo(values.data());
  ForHalves(type, payload, values, &WidenHalf);
}

void AddElements(DType type, const Payload& payload, absl::Span<float> values) {
  if (type == DType::kF32) return payload.AddTo(values);
  ForHalves(type, payload, values, &AddHalf);
}

}  // namespace muster
