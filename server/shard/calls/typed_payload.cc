#include "server/shard/calls/typed_payload.h"

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/tensor/half.h"
#include "common/tensor/wire_elements.h"

namespace muster {

Payload WidenPayload(Payload payload, DType type, BufferPool& pool) {
  if (type == DType::kF32) return payload;
  const size_t elements = payload.size() / SizeOf(type);
  const std::shared_ptr<float> values = pool.Take(elements);
  ReadElements(type, payload, {values.get(), elements});
  const Payload::Span span(reinterpret_cast<const std::byte*>(values.get()),
                           elements * sizeof(float));
  return Payload({span}, values);
}

Payload NarrowPayload(Payload payload, DType type,
                      absl::FunctionRef<std::shared_ptr<std::byte>(size_t bytes)> take) {
  if (type == DType::kF32) return payload;
  const size_t bytes = payload.size() / sizeof(float) * sizeof(uint16_t);
  const std::shared_ptr<std::byte> memory = take(bytes);
  auto* bits = reinterpret_cast<uint16_t*>(memory.get());
  for (const Payload::Span& span : payload.spans()) {
    const absl::Span<const float> values(reinterpret_cast<const float*>(span.data()),
                                         span.size() / sizeof(float));
    RoundToHalf(type, values, bits);
    bits += values.size();
  }
  return Payload({Payload::Span(memory.get(), bytes)}, memory);
}

}  // namespace muster
