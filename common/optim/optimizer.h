#ifndef MUSTER_COMMON_OPTIM_OPTIMIZER_H_
#define MUSTER_COMMON_OPTIM_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace muster {

namespace v1 {
class OptimizerSpec;
}  // namespace v1

// What varies from one optimizer step to the next.
struct OptimizerStep {
  float learning_rate = 0;
  // Counts from 1: Adam's bias correction.
  uint64_t step = 1;
  // The gradient used is `gradient * gradient_scale`, then limited to [-clip_value, clip_value].
  float gradient_scale = 1;
  float clip_value = std::numeric_limits<float>::infinity();
  bool weight_decay = true;
};

// One optimizer step over flat f32 spans, in place. Immutable, so thread-safe; each call works on its spans alone.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Names of the optimizer's slots ("momentum", "accumulator", "m", "v", …); stable, as checkpoints hold them.
  virtual const std::vector<std::string>& slot_names() const = 0;

  // Floats of state that `n` weights need in all slots together. Slots lie one after another, each n floats, unless
  // the optimizer is row-wise, which keeps one float for all n.
  virtual size_t slot_floats(size_t n) const = 0;

  // Writes the slots' first values; `slots` has slot_floats(n) elements.
  virtual void InitSlots(size_t n, absl::Span<float> slots) const = 0;

  // One step. REQUIRES: gradient and weights of equal size n, slots of slot_floats(n).
  virtual void Apply(const OptimizerStep& step, absl::Span<const float> gradient,
                     absl::Span<float> weights, absl::Span<float> slots) const = 0;
};

// Whether a span is a stretch of elements (dense) or one row of a sparse table. Only row-wise Adagrad differs.
enum class Granularity { kElements, kRow };

// The optimizer that a specification names. InvalidArgument names the field, the value and the known ones.
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateOptimizer(const v1::OptimizerSpec& spec,
                                                                 Granularity granularity);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_OPTIMIZER_H_
