#include "common/base/gathered_payload.h"

#include <cstddef>
#include <memory>

namespace muster {
namespace {

constexpr size_t kShortBytes = 4 << 10;
// A few are no matter, whatever their length.
constexpr size_t kFewSpans = 16;

}  // namespace

Payload GatherPayload(const Payload& payload, BufferPool& pool) {
  const std::shared_ptr<float> copy =
      pool.Take((payload.size() + sizeof(float) - 1) / sizeof(float));
  payload.CopyTo(copy.get());
  const auto* bytes = reinterpret_cast<const std::byte*>(copy.get());
  return Payload({absl::MakeConstSpan(bytes, payload.size())}, copy);
}

bool InShortSpans(const Payload& payload) {
  const size_t spans = payload.spans().size();
  return spans > kFewSpans && payload.size() / spans < kShortBytes;
}

}  // namespace muster
