#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_TRANSPORT_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace muster {

// Two streams of bytes, to one peer and from it, in order and bounded. Nothing here blocks. Used by
// one thread at a time. Errors are those of Transport::health().
class Pipe {
 public:
  virtual ~Pipe() = default;

  // Takes a prefix of `bytes` and returns its length, 0 if there is no room now. The caller passes
  // the rest again at the front of the next Write.
  virtual absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes) = 0;

  // Returns contiguous bytes that have arrived, at most `want`; empty if there are none yet. Bytes
  // stay until they are consumed. An element (of at most 8 bytes, aligned in the stream) may be
  // shown in part at first; a later call shows it whole.
  virtual absl::StatusOr<absl::Span<const std::byte>> Peek(size_t want) = 0;
  // Drops the first bytes. REQUIRES: bytes <= the length of the last Peek.
  virtual void Consume(size_t bytes) = 0;

  // Moves arrived bytes to `out`, at most its length, and returns how many. Saves a copy if the
  // bytes need not be looked at first.
  virtual absl::StatusOr<size_t> Read(absl::Span<std::byte> out) = 0;

  // Hands what Write took to the peer; without a Flush, the bytes may wait for more.
  virtual absl::Status Flush() = 0;

  // Returns true if bytes pass through memory, so that an empty Peek costs no system call.
  virtual bool in_memory() const = 0;
};

// The pipe and the directions for which a caller waits.
struct PipeInterest {
  int peer = 0;
  bool readable = false;
  bool writable = false;
  // True if the caller can do without this peer: it may leave.
  bool may_leave = false;
};

// The call that a rank is in, which the others are told when something goes wrong. Plain data of
// fixed size, the same on every rank's machine (little-endian).
struct CallState {
  // Number of collective calls entered; `inside` is 0 once no call of the rank is under way.
  uint64_t sequence = 0;
  uint32_t inside = 0;
  // Collective, DType and Reduction as numbers.
  uint32_t kind = 0;
  uint32_t dtype = 0;
  uint32_t reduction = 0;
  uint64_t count = 0;
  char label[24] = {};
};

struct RankState {
  enum class Life {
    // The rank has just answered.
    kAnswers,
    // The rank's process seems to exist but does not answer: stopped, or out of reach.
    kSilent,
    kDied,
    // The rank has closed its end in order.
    kLeft,
  };
  Life life = Life::kSilent;
  // The last known call of the rank.
  CallState call;
};

// Memory that all ranks of the group map: one region for each rank, all of one size.
class SymmetricMemory {
 public:
  virtual ~SymmetricMemory() = default;
  // Returns the region of `rank`; others' may be written only as the order of calls allows.
  virtual std::byte* of(int rank) = 0;
  virtual size_t bytes() const = 0;
};

// One rank's connections to the others of its group. Pipes, Ticket, Wait and Publish are used by
// one thread at a time; Wake, health, Abort and Survey by any.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // REQUIRES: peer != rank().
  virtual Pipe& pipe(int peer) = 0;

  // Wait without losing a wake-up: take a ticket, try all pipes, then wait with the ticket. Wait
  // returns once some pipe may have moved since the ticket was taken, health() is no longer OK, or
  // the timeout has passed. Wait looks for a short while before it sleeps, and yields the processor
  // if this machine has more ranks than processors.
  virtual uint64_t Ticket() = 0;
  virtual void Wait(uint64_t ticket, absl::Span<const PipeInterest> interests,
                    absl::Duration timeout) = 0;

  // Ends a Wait of this rank: the one under way, or the next one with an older ticket. For any
  // thread, such as one with more work for the thread that waits.
  virtual void Wake() = 0;

  // Returns OK until a peer dies or leaves while still needed (Unavailable), or a rank aborts the
  // group. Costs one atomic load when OK.
  virtual absl::Status health() const = 0;

  // Ends the group on all ranks: health() is the first `reason`. Does not block.
  virtual void Abort(const absl::Status& reason) = 0;

  // Notes what this rank is doing. As cheap as a store.
  virtual void Publish(const CallState& state) = 0;

  // Returns what all ranks are doing, by rank, as far as they tell within `grace`.
  virtual std::vector<RankState> Survey(absl::Duration grace) = 0;

  // Allocates memory that all ranks map; collective, of one size. Unimplemented: ranks share none.
  virtual absl::StatusOr<std::unique_ptr<SymmetricMemory>> Allocate(size_t bytes,
                                                                    absl::Duration timeout) = 0;

  // Returns a transport among `ranks`, which are this group's ranks in their new order and include
  // this one. Collective over those ranks. `id` is the same on all of them, and new.
  virtual absl::StatusOr<std::unique_ptr<Transport>> Subgroup(absl::Span<const int> ranks,
                                                              uint64_t id,
                                                              absl::Duration timeout) = 0;

  // Returns the kind of pipe to `peer`, such as "shared memory" or "tcp"; empty for this rank.
  virtual std::string Description(int peer) const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_TRANSPORT_H_
