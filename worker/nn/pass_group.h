#ifndef MUSTER_WORKER_NN_PASS_GROUP_H_
#define MUSTER_WORKER_NN_PASS_GROUP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/tensor/dtype.h"

namespace muster {

// Ranks that compute one model together, and the collective calls that they make within its passes.
// All ranks make the same calls in the same order. Sums are made in f32 and rounded once; those of
// f64, in f64.
//
// Like operations, calls return nothing: the first failure is kept by status(), and after it calls
// do nothing, so that results mean nothing. Arrays lie in the memory of the ops. Used by one
// thread.
class PassGroup {
 public:
  virtual ~PassGroup() = default;

  virtual int size() const = 0;
  virtual int rank() const = 0;

  // all [size · elements] = what every rank has in `mine` [elements], in order of rank. `mine` may
  // be its place in `all`.
  virtual void Gather(DType type, int64_t elements, const void* mine, void* all) = 0;
  // mine [elements] = the sum over all ranks of their part number rank() of `all` [size ·
  // elements]. Overwrites `all`, in which `mine` may be that part.
  virtual void ScatterSums(DType type, int64_t elements, void* all, void* mine) = 0;
  // values [elements] = the sum over all ranks; the same bits on each.
  virtual void Sum(DType type, int64_t elements, void* values) = 0;

  virtual absl::Status status() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_PASS_GROUP_H_
