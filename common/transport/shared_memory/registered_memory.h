#ifndef MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_REGISTERED_MEMORY_H_
#define MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_REGISTERED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/transport/shared_memory/shared_region.h"

namespace muster {

// Memory of a client that servers of the same machine reach: its data channels hand it over at
// their handshake. A server reads what it is sent where that lies, and writes answers where they
// belong, both without a copy. Sender and receiver agree on what may change when
// (proto/parameter_service.proto, MemoryRange). Thread-safe.
class RegisteredMemory {
 public:
  // Reserves an address range for all bytes that Take will ever give; bytes not yet given take no
  // memory. ResourceExhausted: the system has no such range or no descriptor.
  static absl::StatusOr<std::shared_ptr<RegisteredMemory>> Create(size_t bytes);

  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  // Returns zeroed bytes that nobody was given before, aligned to 64; they live as long as this
  // object. Their pages exist already, so that no server is the first to touch them and charged for
  // them, and are huge ones where whole ones fit (SharedRegion::UseHugePages). Null: too little of
  // the range or of the machine's memory is left.
  std::byte* Take(size_t bytes);

  // Returns the offset of the bytes in this memory; nullopt: they do not lie wholly in it.
  std::optional<uint64_t> OffsetOf(absl::Span<const std::byte> bytes) const;

  // The descriptor to hand over.
  int descriptor() const { return region_.descriptor(); }
  size_t bytes() const { return region_.bytes(); }

 private:
  explicit RegisteredMemory(SharedRegion region) : region_(std::move(region)) {}

  const SharedRegion region_;
  absl::Mutex mutex_;
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The server's side of a client's RegisteredMemory. Thread-safe.
class PeerMemory {
 public:
  // Maps the client's memory. FailedPrecondition: the descriptor is no sealed memfd of so many
  // bytes. ResourceExhausted: the system has no such address range.
  static absl::StatusOr<std::shared_ptr<PeerMemory>> Map(Descriptor descriptor, size_t bytes);

  // Returns a range of the memory. InvalidArgument: the range is empty, or not wholly within.
  absl::StatusOr<absl::Span<std::byte>> At(uint64_t offset, uint64_t bytes) const;

 private:
  explicit PeerMemory(SharedRegion region) : region_(std::move(region)) {}

  const SharedRegion region_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_REGISTERED_MEMORY_H_
