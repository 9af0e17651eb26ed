#ifndef MUSTER_WORKER_NN_COUNTING_GROUP_H_
#define MUSTER_WORKER_NN_COUNTING_GROUP_H_

#include <cstdint>

#include "absl/status/status.h"

namespace muster {

// The data ranks that count choices of experts together, each those of the sequences that it
// computes meanwhile (MoeSpec.GLOBAL_BATCH, capacity_factor). Every rank makes the same calls in
// the same order.
//
// Calls return nothing: the first failure is kept by status(), and after it calls do nothing, so
// that results mean nothing. Arrays lie in the memory of the ops. Used by one thread.
class CountingGroup {
 public:
  virtual ~CountingGroup() = default;

  virtual int size() const = 0;
  // In order of the sequences in the step's joined batch.
  virtual int rank() const = 0;

  // counts [numbers] = the sum over all ranks; the same bits on each.
  virtual void Sum(int64_t numbers, float* counts) = 0;

  virtual absl::Status status() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_COUNTING_GROUP_H_
