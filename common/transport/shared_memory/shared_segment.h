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

// Memory that two processes share for one data channel. Of each direction:
//
//   ring     frames and headers (see byte_ring.h)
//   ledger   one word for each 64 KiB of the arena: 1 where a fragment that the receiver has yet to
//            give back begins
//   arena    payloads, in fragments
//
// and once, the gate of what the server writes to memory that the client has registered.
//
// The sender alone decides what lies where in the arena, from notes of its own; all that it takes
// from the shared memory is which of the fragments it has handed out have come back. So whatever
// the receiver writes there, no more than its own messages suffer. The receiver copies offsets and
// lengths before it checks them. Fragments come back in any order and from any thread, without a
// lock; credits are nothing but room in the arena, and go with the segment.
namespace muster {

inline constexpr size_t kGranuleBytes = 64 << 10;
// Longest fragment that Allocate gives, unless the arena is smaller.
inline constexpr size_t kMaxFragmentBytes = 1 << 20;
inline constexpr size_t kSegmentRingBytes = 256 << 10;
// 64 MiB, and what a receiver leaves: a client's window of pushes lies there whole.
inline constexpr size_t kDefaultArenaBytes = size_t{80} << 20;
inline constexpr size_t kMinArenaBytes = 1 << 20;
inline constexpr size_t kMaxArenaBytes = size_t{1} << 30;

// What payloads that a receiver keeps leave of an arena: enough for the sender to go on without
// delay, and to make two long answers at a time there.
constexpr size_t NotLentBytes(size_t arena_bytes) {
  return std::min(arena_bytes / 2, size_t{16} << 20);
}
// The most that is taken for payloads that are yet to be sent. Half of what a receiver leaves: what
// is to be sent before them finds room in the other half, whatever is kept on both sides.
constexpr size_t MaxTakenBytes(size_t arena_bytes) { return NotLentBytes(arena_bytes) / 2; }

struct ArenaLedger {
  // Whether the sender was waiting for room: whoever brings some, and is told so, wakes it.
  bool SenderToWake();

  // The sender waits for room, and wants to be woken.
  alignas(64) std::atomic<uint32_t> sender_waits;
  alignas(64) std::atomic<uint32_t> held[];
};

// The mapping itself, and where things lie in it.
class SharedSegment {
 public:
  enum class Direction { kToServer = 0, kToClient = 1 };

  // ResourceExhausted: there is not that much memory. InvalidArgument: the arena's size is no
  // multiple of 64 KiB within the limits.
  static absl::StatusOr<std::shared_ptr<SharedSegment>> Create(size_t arena_bytes);
  // The other process's. FailedPrecondition: it is not sealed, or not of that size.
  static absl::StatusOr<std::shared_ptr<SharedSegment>> Map(Descriptor descriptor,
                                                            size_t arena_bytes);

  // To hand over.
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

// The sender's view of an arena. Thread-safe.
class ArenaSender {
 public:
  ArenaSender(std::shared_ptr<SharedSegment> segment, SharedSegment::Direction direction);

  // Room for the next fragment of `wanted` bytes that are left of a payload: a prefix of them, of
  // kMaxFragmentBytes at most. False: there is none now.
  bool Allocate(size_t wanted, uint64_t* offset, absl::Span<std::byte>* fragment)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Room for a whole payload that is yet to be made, in one piece. No more than MaxTakenBytes are
  // given so. Null: there is none now.
  struct Allocation {
    std::byte* place = nullptr;
    // No two are alike.
    uint64_t serial = 0;
  };
  Allocation Take(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a payload is one that lies in room from Take.
  bool IsTaken(const std::byte* payload) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes a fragment of it, and of the room none that is taken. Returns its offset. REQUIRES:
  // IsTaken.
  uint64_t SendTaken(const std::byte* payload) ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives the room back, unless it was sent. True: the sender is to be woken.
  bool GiveUp(const Allocation& room) ABSL_LOCKS_EXCLUDED(mutex_);

  // Asks to be woken when a fragment or room comes back; those that came back before count for the
  // next Allocate.
  void SetWaits() { ledger_.sender_waits.store(1, std::memory_order_seq_cst); }

 private:
  struct Fragment {
    uint32_t granule;
    uint32_t granules;
  };

  // Takes back what the receiver is through with; whether there was any.
  bool Reclaim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first run of so many granules that are free or, where there is none, the longest.
  Fragment FindFree(size_t granules) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetUsed(const Fragment& fragment, bool used) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the receiver own it.
  void Lend(const Fragment& fragment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<SharedSegment> segment_;
  ArenaLedger& ledger_;
  std::byte* const arena_;
  const size_t granules_;
  mutable absl::Mutex mutex_;
  // By granule: whether it is part of a fragment, or taken.
  std::vector<bool> used_ ABSL_GUARDED_BY(mutex_);
  std::vector<Fragment> fragments_ ABSL_GUARDED_BY(mutex_);
  struct Taken {
    Fragment fragment;
    uint64_t serial;
  };
  // By where it lies.
  // The standard library's, which bears that memory runs out.
  std::unordered_map<const std::byte*, Taken> taken_ ABSL_GUARDED_BY(mutex_);
  size_t taken_granules_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_serial_ ABSL_GUARDED_BY(mutex_) = 1;
};

// The receiver's view. Thread-safe.
class ArenaReceiver {
 public:
  ArenaReceiver(const std::shared_ptr<SharedSegment>& segment, SharedSegment::Direction direction);

  // A fragment that the sender names. DataLoss: it does not lie within the arena.
  absl::StatusOr<absl::Span<const std::byte>> Find(uint64_t offset, uint64_t bytes) const;

  // Gives a fragment that Find has returned back. True: the sender is to be woken.
  bool Release(uint64_t offset);

 private:
  ArenaLedger& ledger_;
  const std::byte* const arena_;
  const size_t arena_bytes_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_SHARED_SEGMENT_H_
