#ifndef MUSTER_SERVER_SHARD_CALLS_PARKED_CALLS_H_
#define MUSTER_SERVER_SHARD_CALLS_PARKED_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "server/shard/calls/admitted_call.h"

namespace muster {

// Operations that wait until a count of clocks is reached. Those whose caller is gone are dropped
// in time. Not thread-safe.
class ParkedCalls {
 public:
  // Waits until the count is at least `clocks`. Takes the call once there is memory for it.
  void Park(uint64_t clocks, AdmittedCall&& call);

  // Takes out one of those that a count of `clocks` lets go: lowest need first, among equals in the
  // order they were parked. Nothing: there is none. Needs no memory.
  std::optional<AdmittedCall> TakeReady(uint64_t clocks);
  std::optional<AdmittedCall> TakeAny();

  // Those whose caller is gone. Each keeps its caller's connection, and the memory that the caller
  // has registered with it.
  void DropCancelled();

  size_t size() const { return calls_.size(); }
  // What the waiting ones take of memory.
  size_t bytes() const { return bytes_; }

 private:
  std::multimap<uint64_t, AdmittedCall> calls_;
  size_t bytes_ = 0;
  // Number of calls at which cancelled ones are looked for next: twice what was left the last time.
  size_t sweep_at_ = 64;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CALLS_PARKED_CALLS_H_
