#ifndef MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_SLICE_OPS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_SLICE_OPS_H_

#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "worker/strategy/group/gradients/call_order.h"

namespace muster {

// The arithmetic on slices and gathered units, in the memory where they lie, and its order with the
// calls that move them. Operations may only queue, behind everything that the computation has
// queued so far. Arrays do not overlap; empty ones are allowed. Used by one thread.
class SliceOps : public CallOrder {
 public:
  // to[i] = from[i].
  virtual void Copy(absl::Span<const float> from, float* to) = 0;
  // to[i] += from[i].
  virtual void Add(absl::Span<const float> from, float* to) = 0;
  virtual void Zero(absl::Span<float> values) = 0;
  // Rounds to a 16-bit type.
  virtual void Round(DType type, absl::Span<const float> from, void* to) = 0;
};

// Returns the operations on the host's memory, which are done when they return. Stateless, so every
// thread may use them.
SliceOps& HostSliceOps();

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_SLICE_OPS_H_
