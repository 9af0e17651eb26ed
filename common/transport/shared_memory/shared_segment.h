#ifndef MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_SHARED_SEGMENT_H_
#define MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_SHARED_SEGMENT_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/transport/descriptor.h"
#include "common/transport/shared_memory/shared_region.h"
#include "common/transport/shared_memory/write_gate.h"

// Memory that two processes share for one data channel. It holds for each direction:
//
//   ring     frames and headers (see byte_ring.h)
//   ledger   one word for each 64 KiB of the arena: 1 where a fragment that the receiver has yet to
//            give back begins
//   arena    payloads, in fragments
//
// and once, the gate of the server's writes to memory that the client has registered.
//
// The sender alone decides what lies where in the arena, from notes in private memory; the shared
// memory tells it only which fragments have come back. So a receiver that writes nonsense there
// harms only its own messages. The receiver copies offsets and lengths before it checks them.
// Fragments come back in any order and from any thread, without a lock. Room in the arena is the
// only credit, and goes with the segment.
namespace muster {

inline constexpr size_t kGranuleBytes = 64 << 10;
// Longest fragment that Allocate gives, unless the arena is smaller.
inline constexpr size_t kMaxFragmentBytes = 1 << 20;
inline constexpr size_t kSegmentRingBytes = 256 << 10;
// 64 MiB, a client's whole window of pushes, and 16 MiB that are not lent (NotLentBytes).
inline constexpr size_t kDefaultArenaBytes = size_t{80} << 20;
inline constexpr size_t kMinArenaBytes = 1 << 20;
inline constexpr size_t kMaxArenaBytes = size_t{1} << 30;

// Returns the bytes of an arena that payloads kept by a receiver never take: enough for the sender
// to go on without delay, and to make two long answers at a time.
constexpr size_t NotLentBytes(size_t arena_bytes) {
  return std::min(arena_bytes / 2, size_t{16} << 20);
}
// Returns the most bytes that may be taken for payloads yet to be sent: half of NotLentBytes.
// Payloads sent before them find room in the other half, whatever both sides keep.
constexpr size_t MaxTakenBytes(size_t arena_bytes) { return NotLentBytes(arena_bytes) / 2; }

struct ArenaLedger {
  // Returns whether the sender waited for room, and ends its wait; the caller then wakes it.
  bool SenderToWake();

  // Set while the sender waits for room and wants to be woken.
  alignas(64) std::atomic<uint32_t> sender_waits;
  alignas(64) std::atomic<uint32_t> held[];
};

// The mapping of the segment, and where things lie in it.
class SharedSegment {
 public:
  enum class Direction { kToServer = 0, kToClient = 1 };

  // Creates a segment. ResourceExhausted: there is not that much memory. InvalidArgument: the
  // arena's size is no multiple of 64 KiB within the limits.
  static absl::StatusOr<std::shared_ptr<SharedSegment>> Create(size_t arena_bytes);
  // Maps the other process's segment. FailedPrecondition: it is not sealed, or not of that size.
  static absl::StatusOr<std::shared_ptr<SharedSegment>> Map(Descriptor descriptor,
                                                            size_t arena_bytes);

  // The descriptor to hand over.
  int descriptor() const { return region_.descriptor(); }
  void CloseDescriptor() { region_.CloseDescriptor(); }

  size_t arena_bytes() const { return arena_bytes_; }
  std::byte* ring(Direction direction) const;
  ArenaLedger& ledger(Direction direction) const;
  std::byte* arena(Direction direction) const;
  WriteGate& write_gate() const;

 private:
  SharedSegment(SharedRegion region, size_t arena_bytes)
      : region_(std::move(region)), arena_bytes_(arena_bytes) {}

  SharedRegion region_;
  const size_t arena_bytes_;
};

// The sender's side of an arena. Thread-safe.
class ArenaSender {
 public:
  ArenaSender(std::shared_ptr<SharedSegment> segment, SharedSegment::Direction direction);

  // Makes room for the next fragment of a payload of which `wanted` bytes are left: for a prefix of
  // them, of kMaxFragmentBytes at most. Returns false if there is no room now.
  bool Allocate(size_t wanted, uint64_t* offset, absl::Span<std::byte>* fragment)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Contiguous room for a whole payload yet to be made. Null: there is none now, or more than
  // MaxTakenBytes would be taken.
  struct Allocation {
    std::byte* place = nullptr;
    // Unique.
    uint64_t serial = 0;
  };
  Allocation Take(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns whether a payload lies in taken room that was not sent.
  bool IsTaken(const std::byte* payload) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Turns taken room into a fragment and returns its offset. REQUIRES: IsTaken.
  uint64_t SendTaken(const std::byte* payload) ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives the room back, unless it was sent. Returns true if the sender is to be woken.
  bool GiveUp(const Allocation& room) ABSL_LOCKS_EXCLUDED(mutex_);

  // Asks to be woken when a fragment or room comes back; the next Allocate finds earlier ones.
  void SetWaits() { ledger_.sender_waits.store(1, std::memory_order_seq_cst); }

 private:
  struct Fragment {
    uint32_t granule;
    uint32_t granules;
  };

  // Takes back fragments that the receiver has released; returns whether there were any.
  bool Reclaim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the first run of `granules` free granules or, if there is none, the longest.
  Fragment FindFree(size_t granules) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetUsed(const Fragment& fragment, bool used) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Passes the fragment to the receiver.
  void Lend(const Fragment& fragment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<SharedSegment> segment_;
  ArenaLedger& ledger_;
  std::byte* const arena_;
  const size_t granules_;
  mutable absl::Mutex mutex_;
  // By granule: true if it is part of a fragment, or taken.
  std::vector<bool> used_ ABSL_GUARDED_BY(mutex_);
  std::vector<Fragment> fragments_ ABSL_GUARDED_BY(mutex_);
  struct Taken {
    Fragment fragment;
    uint64_t serial;
  };
  // Keyed by place. The standard library's map, which survives that memory runs out.
  std::unordered_map<const std::byte*, Taken> taken_ ABSL_GUARDED_BY(mutex_);
  size_t taken_granules_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_serial_ ABSL_GUARDED_BY(mutex_) = 1;
};

// The receiver's side of an arena. Thread-safe.
class ArenaReceiver {
 public:
  ArenaReceiver(const std::shared_ptr<SharedSegment>& segment, SharedSegment::Direction direction);

  // Returns the fragment that the sender names. DataLoss: it does not lie within the arena.
  absl::StatusOr<absl::Span<const std::byte>> Find(uint64_t offset, uint64_t bytes) const;

  // Gives back a fragment that Find has returned. Returns true if the sender is to be woken.
  bool Release(uint64_t offset);

 private:
  ArenaLedger& ledger_;
  const std::byte* const arena_;
  const size_t arena_bytes_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_SHARED_SEGMENT_H_
