#ifndef MUSTER_COMMON_BASE_PAYLOAD_H_
#define MUSTER_COMMON_BASE_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace muster {

// Immutable bytes in spans of any length and alignment, as a transport delivers them, with the
// owner of their memory. Cheap to copy (shared ownership). Thread-safe, since a payload never
// changes after construction.
class Payload {
 public:
  using Span = absl::Span<const std::byte>;

  Payload() = default;
  // `owner` keeps the spans' memory alive until the last copy of this payload is gone.
  Payload(std::vector<Span> spans, std::shared_ptr<const void> owner);

  // Returns one span that owns a copy of `bytes`.
  static Payload Copy(Span bytes);
  // Returns one span over a vector's elements; takes the vector.
  template <typename T>
  static Payload Of(std::vector<T> values) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    return Payload({absl::MakeConstSpan(reinterpret_cast<const std::byte*>(owner->data()),
                                        owner->size() * sizeof(T))},
                   owner);
  }

  size_t size() const { return size_; }
  absl::Span<const Span> spans() const { return spans_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // Returns bytes [offset, offset + bytes) as a payload of its own, without a copy. REQUIRES: in
  // range.
  Payload Slice(size_t offset, size_t bytes) const;

  // A place among the bytes; by default their beginning.
  struct Position {
    size_t span = 0;
    size_t in_span = 0;
  };
  // Copies the next `bytes` to `destination` and moves on, across spans if necessary. REQUIRES: so
  // many bytes are left.
  void Read(Position& position, size_t bytes, void* destination) const;

  // Copies all bytes to `destination`, which has room for size().
  void CopyTo(void* destination) const;

  // Adds element i to destination[i], reading the payload as little-endian f32. Elements may
  // straddle two spans. REQUIRES: size() == 4 * destination.size().
  void AddTo(absl::Span<float> destination) const;

 private:
  std::vector<Span> spans_;
  std::shared_ptr<const void> owner_;
  size_t size_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_PAYLOAD_H_
