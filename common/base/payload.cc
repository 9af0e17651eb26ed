#include "common/base/payload.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/machine/prefetch.h"

namespace muster {
namespace {

// How far ahead spans, which may lie anywhere, are begun to be loaded, and how much of each: as
// much as the processor needs to see how it goes on.
constexpr size_t kSpansAhead = 6;
constexpr size_t kBegunBytes = 512;
constexpr size_t kLineBytes = 64;

// Unaligned on purpose: spans start anywhere. Compilers turn the fixed-size memcpy into vector
// loads.
void AddUnaligned(const std::byte* source, float* destination, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, source + i * sizeof(float), sizeof(float));
    destination[i] += value;
  }
}

}  // namespace

Payload::Payload(std::vector<Span> spans, std::shared_ptr<const void> owner)
    : spans_(std::move(spans)), owner_(std::move(owner)) {
  for (const Span& span : spans_) size_ += span.size();
}

Payload Payload::Copy(Span bytes) { return Of(std::vector<std::byte>(bytes.begin(), bytes.end())); }

Payload Payload::Slice(size_t offset, size_t bytes) const {
  std::vector<Span> spans;
  for (const Span& span : spans_) {
    if (bytes == 0) break;
    if (offset >= span.size()) {
      offset -= span.size();
      continue;
    }
    const size_t take = std::min(bytes, span.size() - offset);
    spans.push_back(span.subspan(offset, take));
    bytes -= take;
    offset = 0;
  }
  return Payload(std::move(spans), owner_);
}

void Payload::Read(Position& position, size_t bytes, void* destination) const {
  auto* at = static_cast<std::byte*>(destination);
  while (bytes > 0) {
    if (const size_t ahead = position.span + kSpansAhead; ahead < spans_.size()) {
      const Span next = spans_[ahead];
      const size_t begun = std::min(next.size(), kBegunBytes);
      for (size_t i = 0; i < begun; i += kLineBytes) Prefetch(next.data() + i);
    }
    const Span rest = spans_[position.span].subspan(position.in_span);
    const size_t length = std::min(bytes, rest.size());
    if (length > 0) std::memcpy(at, rest.data(), length);
    at += length;
    bytes -= length;
    position.in_span += length;
    if (length == rest.size()) position = {position.span + 1, 0};
  }
}

void Payload::CopyTo(void* destination) const {
  Position begin;
  Read(begin, size_, destination);
}

void Payload::AddTo(absl::Span<float> destination) const {
  float* at = destination.data();
  std::byte carry[sizeof(float)];
  size_t carried = 0;
  for (Span span : spans_) {
    if (carried > 0) {
      const size_t take = std::min(sizeof(float) - carried, span.size());
      std::memcpy(carry + carried, span.data(), take);
      carried += take;
      span.remove_prefix(take);
      if (carried < sizeof(float)) continue;
      AddUnaligned(carry, at++, 1);
      carried = 0;
    }
    const size_t whole = span.size() / sizeof(float);
    AddUnaligned(span.data(), at, whole);
    at += whole;
    carried = span.size() - whole * sizeof(float);
    if (carried > 0) std::memcpy(carry, span.data() + whole * sizeof(float), carried);
  }
}

}  // namespace muster
