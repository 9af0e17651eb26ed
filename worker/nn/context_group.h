#ifndef MUSTER_WORKER_NN_CONTEXT_GROUP_H_
#define MUSTER_WORKER_NN_CONTEXT_GROUP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/tensor/dtype.h"

namespace muster {

// The ranks that share out the tokens of every sequence (context parallelism), and the collective
// calls within its passes. All ranks make the same calls in the same order. Sums are made in f32 or
// f64, as the type of the values says.
//
// Like operations, calls return nothing: the first failure is kept by status(), and after it calls
// do nothing, so that results mean nothing. Arrays lie in the memory of the ops. Used by one
// thread.
class ContextGroup {
 public:
  virtual ~ContextGroup() = default;

  virtual int size() const = 0;
  virtual int rank() const = 0;

  // Starts to send `mine` [elements] to the next rank, the last one's being the first, and to
  // receive as much from the rank before into `theirs`. Neither may be touched before the
  // AwaitPassed that belongs to the call.
  virtual void StartToPass(DType type, int64_t elements, const void* mine, void* theirs) = 0;
  // Waits for the earliest StartToPass that was not awaited.
  virtual void AwaitPassed() = 0;

  // all [size · elements] = what every rank has in `mine` [elements], in order of rank. `mine` may
  // be its place in `all`.
  virtual void Gather(DType type, int64_t elements, const void* mine, void* all) = 0;
  // mine [elements] = the sum over all ranks of their part number rank() of `all` [size ·
  // elements]. Overwrites `all`, in which `mine` may be that part.
  virtual void ScatterSums(DType type, int64_t elements, void* all, void* mine) = 0;
  // Part number i of `in` [size · elements] goes to rank i, and part number i of `out` [size ·
  // elements] comes from it.
  virtual void Exchange(DType type, int64_t elements, const void* in, void* out) = 0;
  // values [elements] = the sum over all ranks; the same bits on each.
  virtual void Sum(DType type, int64_t elements, void* values) = 0;

  virtual absl::Status status() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_CONTEXT_GROUP_H_
