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

// Bytes from this rank to one peer and from it, in order and bounded. Nothing here blocks. Used by
// one thread at a time. Errors are those of Transport::health().
class Pipe {
 public:
  virtual ~Pipe() = default;

  // Takes over a prefix of `bytes` and returns its length; 0: no room now. What was not taken comes
  // again at the front of the next Write.
  virtual absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes) = 0;

  // Bytes that have arrived, at most `want`, in one piece; empty: none yet. They stay until they
  // are consumed. Bytes before a multiple of 64 of the stream are never split from the element
  // (of at most 8 bytes, itself aligned in the stream) that they belong to for good: a later call
  // shows it whole.
  virtual absl::StatusOr<absl::Span<const std::byte>> Peek(size_t want) = 0;
  // REQUIRES: bytes <= the length of the last Peek.
  virtual void Consume(size_t bytes) = 0;

  // Moves arrived bytes to `out`, at most its length, and returns how many: where they need not be
  // looked at first, this saves a copy.
  virtual absl::StatusOr<size_t> Read(absl::Span<std::byte> out) = 0;

  // Hands what Write took to the peer; a Write alone may wait for more.
  virtual absl::Status Flush() = 0;

  // Whether the bytes pass through memory, so that a Peek that finds none costs no system call.
  virtual bool in_memory() const = 0;
};

// What a caller that can do nothing now waits for.
struct PipeInterest {
  int peer = 0;
  bool readable = false;
  bool writable = false;
};

// What a rank is doing; told to the others when something goes wrong. Plain data of fixed size, the
// same on every rank's machine (little-endian).
struct CallState {
  // Calls that the rank has entered so far; `inside`: the last one has not ended.
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
    // It has just answered.
    kAnswers,
    // Its process is there (or so it seems) but does not answer: stopped, or out of reach.
    kSilent,
    kDied,
    // It has closed its end in order.
    kLeft,
  };
  Life life = Life::kSilent;
  // The last that is known of it.
  CallState call;
};

// Memory that all ranks of the group map, one piece per rank, all of one size.
class SymmetricMemory {
 public:
  virtual ~SymmetricMemory() = default;
  // Of rank `rank`; this rank's own is written freely, others' as the calls' order allows.
  virtual std::byte* of(int rank) = 0;
  virtual size_t bytes() const = 0;
};

// How one rank reaches the others of its group. Pipes, Ticket, Wait and Publish are used by one
// thread at a time; Wake, health, Abort and Survey by any.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // REQUIRES: peer != rank().
  virtual Pipe& pipe(int peer) = 0;

  // Waiting without a lost wake-up: take a ticket, try all pipes, then wait with it. Wait returns
  // once some pipe may have moved since the ticket was taken, or health() is no longer OK, or the
  // timeout passed. It looks for a short while before it sleeps, and gives the processor away when
  // there are more ranks here than processors.
  virtual uint64_t Ticket() = 0;
  virtual void Wait(uint64_t ticket, absl::Span<const PipeInterest> interests,
                    absl::Duration timeout) = 0;

  // Ends a Wait of this rank: the one under way, or the next one whose ticket is older. For any
  // thread, such as one that has more work for the thread that waits.
  virtual void Wake() = 0;

  // OK until a peer died or left in need (Unavailable), or a rank aborted the group. One atomic
  // load when OK.
  virtual absl::Status health() const = 0;

  // Ends the group on all ranks with `reason`, which they see as health(). The first one counts.
  // Does not block.
  virtual void Abort(const absl::Status& reason) = 0;

  // Notes what this rank is doing. As cheap as a store.
  virtual void Publish(const CallState& state) = 0;

  // What all ranks are doing, by rank, as far as they tell within `grace`.
  virtual std::vector<RankState> Survey(absl::Duration grace) = 0;

  // Collective: all ranks ask for the same size. Unimplemented where ranks share no memory.
  virtual absl::StatusOr<std::unique_ptr<SymmetricMemory>> Allocate(size_t bytes,
                                                                    absl::Duration timeout) = 0;

  // A transport among some of the ranks (old ranks, in their new order; this one is among them).
  // Collective over those ranks. `id` is the same on all of them, and new.
  virtual absl::StatusOr<std::unique_ptr<Transport>> Subgroup(absl::Span<const int> ranks,
                                                              uint64_t id,
                                                              absl::Duration timeout) = 0;

  // Such as "shared memory" or "tcp", by peer; empty for this rank.
  virtual std::string Description(int peer) const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_TRANSPORT_H_
