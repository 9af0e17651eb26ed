#ifndef MUSTER_WORKER_NN_EXPERT_GROUP_H_
#define MUSTER_WORKER_NN_EXPERT_GROUP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/tensor/dtype.h"

namespace muster {

// The ranks that share out the experts of each layer (expert parallelism), and the messages in
// which tokens travel between them. Every rank makes the same calls in the same order.
//
// Calls return nothing: the first failure is kept by status(), and after it calls do nothing, so
// that results mean nothing. Arrays lie in host memory. Used by one thread.
class ExpertGroup {
 public:
  // Rows for a rank, or from one; of this rank itself, too.
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

  // all [size · numbers] = what every rank has in `mine`, in order of rank.
  virtual void GatherCounts(absl::Span<const int32_t> mine, absl::Span<int32_t> all) = 0;
  // Starts messages that all ranks exchange at one time. Those of two ranks in one direction are in
  // the same order on both; messages without elements are not sent. No array may be touched before
  // Await. REQUIRES: none are under way.
  virtual void Start(absl::Span<const Sent> sent, absl::Span<const Received> received) = 0;
  // Waits for the messages that were started.
  virtual void Await() = 0;

  virtual absl::Status status() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_EXPERT_GROUP_H_
