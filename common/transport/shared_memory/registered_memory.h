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
// their handshake. A server then reads what it is sent where that lies, and writes answers where
// they belong, each without a copy on the way. What may be changed when is for those to agree on
// who send (proto/parameter_service.proto, MemoryRange). Thread-safe.
class RegisteredMemory {
 public:
  // An address range of as many bytes as Take will ever give; what it has not given takes none.
  // ResourceExhausted: the system has no such range or no descriptor.
  static absl::StatusOr<std::shared_ptr<RegisteredMemory>> Create(size_t bytes);

  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  // Zeroed bytes that nobody was given before, aligned to 64, whose memory is there: no server is
  // to be the first to touch it, and to be charged for it; on huge pages where there are whole ones
  // (SharedRegion::UseHugePages). They stay as long as this does. Null:
  // the rest is shorter, or there is not that much memory.
  std::byte* Take(size_t bytes);

  // Where the bytes lie in it; nullopt: not, or not wholly.
  std::optional<uint64_t> OffsetOf(absl::Span<const std::byte> bytes) const;

  // To hand over.
  int descriptor() const { return region_.descriptor(); }
  size_t bytes() const { return region_.bytes(); }

 private:
  explicit RegisteredMemory(SharedRegion region) : region_(std::move(region)) {}

  const SharedRegion region_;
  absl::Mutex mutex_;
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A server's view of a client's. Thread-safe.
class PeerMemory {
 public:
  // FailedPrecondition: the descriptor is no sealed memfd of so many bytes. ResourceExhausted: the
  // system has no such address range.
  static absl::StatusOr<std::shared_ptr<PeerMemory>> Map(Descriptor descriptor, size_t bytes);

  // InvalidArgument: the range does not lie within it, or is empty.
  absl::StatusOr<absl::Span<std::byte>> At(uint64_t offset, uint64_t bytes) const;

 private:
  explicit PeerMemory(SharedRegion region) : region_(std::move(region)) {}

  const SharedRegion region_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_REGISTERED_MEMORY_H_
