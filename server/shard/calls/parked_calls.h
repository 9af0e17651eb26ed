#ifndef MUSTER_SERVER_SHARD_CALLS_PARKED_CALLS_H_
#define MUSTER_SERVER_SHARD_CALLS_PARKED_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "server/shard/calls/admitted_call.h"

namespace muster {

// Operations that wait for a count of clocks. Those whose caller is gone are dropped now and then.
// Not thread-safe.
class ParkedCalls {
 public:
  // Parks the call until the count is at least `clocks`. If memory runs out, `call` stays as it is.
  void Park(uint64_t clocks, AdmittedCall&& call);

  // Takes out a call that a count of `clocks` lets go: the one with the lowest need, and among
  // equals the one that was parked first. Returns nothing when there is none. Needs no memory.
  std::optional<AdmittedCall> TakeReady(uint64_t clocks);
  std::optional<AdmittedCall> TakeAny();
  // Returns the highest need of a call, and takes such a call out. REQUIRES: size() > 0.
  uint64_t most_clocks() const { return calls_.rbegin()->first; }
  AdmittedCall TakeLast();

  // Drops calls whose caller is gone: each keeps the caller's connection and registered memory.
  void DropCancelled();

  size_t size() const { return calls_.size(); }
  // Returns the memory that parked calls take.
  size_t bytes() const { return bytes_; }

 private:
  AdmittedCall Take(std::multimap<uint64_t, AdmittedCall>::iterator place);

  std::multimap<uint64_t, AdmittedCall> calls_;
  size_t bytes_ = 0;
  // Number of calls at which cancelled ones are dropped next: twice what was left the last time.
  size_t sweep_at_ = 64;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CALLS_PARKED_CALLS_H_
