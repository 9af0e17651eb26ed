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
  // 0 leaves weights as they are (slots still move, but for ftrl's).
  float learning_rate = 0;
  // Counts from 1: Adam's bias correction.
  uint64_t step = 1;
  // The gradient used is `gradient * gradient_scale`, then limited to [-clip_value, clip_value].
  float gradient_scale = 1;
  float clip_value = std::numeric_limits<float>::infinity();
  // Whether the weights belong to the group that regularisation (weight_decay; l1 and l2 of ftrl)
  // applies to.
  bool weight_decay = true;
};

// One optimizer step over flat f32 spans, in place. Immutable, so thread-safe; each call works on
// its spans alone.
//
// With g the scaled and limited gradient, w the weight, η the learning rate, t the step and
// λ = weight_decay, in f32:
//
//   sgd               g += λw;  w -= ηg
//   momentum          g += λw;  m = μm + g;  w -= ηm
//                     Polyak 1964
//   nesterov          g += λw;  m = μm + g;  w -= η(g + μm)
//                     Sutskever et al. 2013, §2, with the look-ahead weights as w
//   adagrad           g += λw;  a += g²;  w -= ηg / (√a + ε)
//                     Duchi, Hazan, Singer 2011, fig. 1, diagonal
//   row_wise_adagrad  the same with one a for all of a row: a += mean(g²)
//                     Elements of a dense tensor are no row: there it is adagrad.
//   rmsprop           g += λw;  a = ρa + (1-ρ)g²;  w -= ηg / (√a + ε)
//                     Tieleman, Hinton 2012, lecture 6.5
//   adam              g += λw;  m = β₁m + (1-β₁)g;  v = β₂v + (1-β₂)g²;
//                     w -= η · m/(1-β₁ᵗ) / (√(v/(1-β₂ᵗ)) + ε)
//                     Kingma, Ba 2015, algorithm 1
//   adamw             w -= ηλw together with adam's step of λ = 0
//                     Loshchilov, Hutter 2019, algorithm 2
//   ftrl              σ = (√(n+g²) - √n)/η;  z += g - σw;  n += g²;
//                     w = |z| ≤ l1 ? 0 : -(z - sgn(z) l1) / ((β + √n)/η + l2)
//                     McMahan et al. 2013, algorithm 1
//                     The z of a weight other than 0 is not read from its slot but is that which
//                     the last line makes the weight of. While η is constant that is the same; it
//                     lets η follow a schedule, and training start from weights other than 0.
//
// Options (OptimizerSpec's fields), the slots, and the values that options left out take. An option
// that the optimizer does not use is an error, not ignored.
//
//   name                slots         options
//   sgd                 -             weight_decay 0
//   momentum, nesterov  momentum      momentum 0.9, weight_decay 0
//   adagrad             accumulator   epsilon 1e-10, initial_accumulator 0, weight_decay 0
//   row_wise_adagrad    accumulator   the same
//   rmsprop             accumulator   decay 0.9 (ρ), epsilon 1e-8, weight_decay 0
//   adam                m, v          beta1 0.9, beta2 0.999, epsilon 1e-8, weight_decay 0
//   adamw               m, v          beta1 0.9, beta2 0.999, epsilon 1e-8, weight_decay 0.01
//   ftrl                z, n          beta 1, l1 0, l2 0, initial_accumulator 0
//
// A NaN gradient makes its weight NaN. Where slots decay towards 0, subnormal numbers count as
// 0 (flush_subnormals.h; hold one around many small rows). Results are the same bits on
// every instruction set and do not depend on how elements are divided into calls
// (row_wise_adagrad's rows are not divided).
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Names of the optimizer's slots, as in the table above; stable, as checkpoints hold them.
  virtual const std::vector<std::string>& slot_names() const = 0;

  // Floats of state that `n` weights need in all slots together. Slots lie one after another, each
  // n floats, unless the optimizer is row-wise, which keeps one float for all n.
  virtual size_t slot_floats(size_t n) const = 0;

  // Writes the slots' first values; `slots` has slot_floats(n) elements.
  virtual void InitSlots(size_t n, absl::Span<float> slots) const = 0;

  // One step. Spans may be of any alignment but must not overlap.
  // REQUIRES: gradient and weights of equal size n, slots of slot_floats(n); step.step >= 1.
  virtual void Apply(const OptimizerStep& step, absl::Span<const float> gradient,
                     absl::Span<float> weights, absl::Span<float> slots) const = 0;
};

// Whether a span holds elements (dense) or one row of a sparse table. Only row-wise
// Adagrad differs.
enum class Granularity { kElements, kRow };

// The optimizer that a specification names. InvalidArgument names the field, the value and what
// would be right: an unknown name, a learning rate or an option out of range, an option that the
// optimizer does not use.
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateOptimizer(const v1::OptimizerSpec& spec,
                                                                 Granularity granularity);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_OPTIMIZER_H_
