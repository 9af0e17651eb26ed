#ifndef MUSTER_WORKER_NN_EXPERT_GROUP_H_
#define MUSTER_WORKER_NN_EXPERT_GROUP_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/tensor/dtype.h"

namespace muster {

// The ranks that share out the experts of each layer (expert parallelism), and the messages in
// which tokens travel between them. Every rank makes the same calls in the same order.
//
// Calls return nothing: the first failure is kept by status(), and after it calls do nothing, so
// that results mean nothing. Arrays lie in the memory of the ops, unless a call says otherwise.
// Used by one thread.
class ExpertGroup {
 public:
  // Rows for another rank, or from one.
  struct Sent {
    int peer = 0;
    DType type = DType::kF32;
    int64_t elements = 0;
    const void* from = nullptr;
  };
  struct Received {
    int peer = 0;
    DType type = DType::kF32;
    int64_t elements = 0;
    void* to = nullptr;
  };

  virtual ~ExpertGroup() = default;

  virtual int size() const = 0;
  virtual int rank() const = 0;

  // Does `exchange` after what the ops have queued so far and before what they queue later: now, or
  // where a pass's operations are recorded each time that these run. It must not refer to what does
  // not live as long. The other calls are made within it alone; after a failure it is not done.
  virtual void Exchange(std::function<void()> exchange) = 0;

  // all [size · numbers] = what every rank has in `mine`, [numbers], in order of rank; and
  // `on_host` the same in the host's memory, for which the host waits.
  virtual void Gather(int64_t numbers, const int32_t* mine, int32_t* all, int32_t* on_host) = 0;
  // Starts messages that all ranks exchange at one time. Those of two ranks in one direction are in
  // the same order on both; messages without elements are not sent. No array may be touched before
  // Await. REQUIRES: none are under way.
  virtual void Start(absl::Span<const Sent> sent, absl::Span<const Received> received) = 0;
  // Lets what the ops queue from now on come after the messages that were started.
  virtual void Await() = 0;

  virtual absl::Status status() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_EXPERT_GROUP_H_
