#ifndef MUSTER_COMMON_OPTIM_OPTIMIZER_H_
#define MUSTER_COMMON_OPTIM_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace muster {

namespace v1 {
class OptimizerSpec;
}  // namespace v1

class MatrixRule;

// The name of the state array of averages.
inline constexpr char kAverageState[] = "average";

// Scalars of one optimizer step.
struct OptimizerStep {
  // 0 leaves weights as they are; state still changes, except ftrl's.
  float learning_rate = 0;
  // Counts from 1; Adam corrects its bias by it.
  uint64_t step = 1;
  // The gradient used is `gradient * gradient_scale`, then limited to [-clip_value, clip_value].
  float gradient_scale = 1;
  float clip_value = std::numeric_limits<float>::infinity();
  // True if regularisation (weight_decay; l1 and l2 of ftrl) applies to the weights.
  bool weight_decay = true;
  // The weight decay of these weights in place of the optimizer's, whatever weight_decay says.
  // Optimizers without that option do not read it.
  absl::optional<float> own_weight_decay;

  // Returns the weight decay that applies, where the optimizer's option is `option`.
  float WeightDecay(float option) const {
    return own_weight_decay.value_or(weight_decay ? option : 0);
  }
};

// Updates flat f32 spans of weights and optimizer state in place. Immutable, so thread-safe.
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
//   lion              c = β₁m + (1-β₁)g;  m = β₂m + (1-β₂)g;  w -= η(sgn(c) + λw)
//                     Chen et al. 2023, algorithm 2
//   muon              Matrices of hidden layers (TensorSpec::matrix_rows), each by itself:
//                     m = μm + g;  O = Orthogonalise(g + μm);
//                     w -= η(0.2 √(larger of rows and columns) · O + λw)
//                     Jordan et al. 2024; scale and decay of Liu et al. 2025, equation 4
//                     Everything else, embeddings and heads among it: adamw
//   ftrl              σ = (√(n+g²) - √n)/η;  z += g - σw;  n += g²;
//                     w = |z| ≤ l1 ? 0 : -(z - sgn(z) l1) / ((β + √n)/η + l2)
//                     McMahan et al. 2013, algorithm 1
//                     For a weight other than 0, z is not read: it is computed from the weight by
//                     the last line. That is the same while η is constant; it lets η follow a
//                     schedule, and training start from weights other than 0.
//
// State arrays, options (fields of OptimizerSpec) and their defaults. An option that the optimizer
// does not use is an error.
//
//   name                state         options
//   sgd                 -             weight_decay 0
//   momentum, nesterov  momentum      momentum 0.9, weight_decay 0
//   adagrad             accumulator   epsilon 1e-10, initial_accumulator 0, weight_decay 0
//   row_wise_adagrad    accumulator   the same
//   rmsprop             accumulator   decay 0.9 (ρ), epsilon 1e-8, weight_decay 0
//   adam                m, v          beta1 0.9, beta2 0.999, epsilon 1e-8, weight_decay 0
//   adamw               m, v          beta1 0.9, beta2 0.999, epsilon 1e-8, weight_decay 0.01
//   lion                m             beta1 0.9, beta2 0.99, weight_decay 0
//   muon                m, v          momentum 0.95, weight_decay 0.01; of what is no matrix
//                                     beta1 0.9, beta2 0.999, epsilon 1e-8
//   ftrl                z, n          beta 1, l1 0, l2 0, initial_accumulator 0
//
// Of matrices, muon's m is the momentum, and v the direction of the last step (matrix_rule.h).
//
// With OptimizerSpec::average_decay d, each of them also keeps an average of every element of a
// dense tensor, as one more state array after its own (kAverageState). It begins at the weight
// itself, and after each step average = d · average + (1 - d) · w. Rows have none.
//
// With OptimizerSpec::state_type BF16, adam and adamw keep m and v of dense tensors in bf16. Steps
// are computed in f32, and what is kept is rounded up or down at random, with probabilities by
// which the expected value is the number itself. Random numbers are a hash of the step, the new
// weight, m and v. So they depend on the element's own numbers alone: an element has the same bits
// wherever it is, and a repeated step has them, too.
//
// A NaN gradient makes its weight NaN. Where state decays towards 0, subnormal numbers count as 0
// (flush_subnormals.h; hold one around many small rows). Results are the same bits on every
// instruction set, and however elements are divided into calls (row_wise_adagrad's rows must not
// be).
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Returns the names of the state arrays, as in the table above. Checkpoints hold these names, so
  // they never change.
  virtual const std::vector<std::string>& state_names() const = 0;

  // Returns whether the first two state arrays are of bf16, and lie in one array of floats
  // (packed_pairs.h).
  virtual bool packs_pairs() const { return false; }

  // Returns the rule of matrices that move as a whole (StepBlock, common/tables/block_step.h),
  // which Apply does not step; null: all elements move by themselves.
  virtual const MatrixRule* matrix_rule() const { return nullptr; }

  // Returns how many floats of state `n` weights need. State arrays lie one after another, each n
  // floats, unless they are packed, or the optimizer is row-wise, which keeps one float for all n.
  virtual size_t state_floats(size_t n) const = 0;

  // Writes the initial state of `weights`; `state` has state_floats(weights.size()) elements.
  virtual void InitState(absl::Span<const float> weights, absl::Span<float> state) const = 0;

  // Makes one step. Spans may have any alignment but must not overlap.
  // REQUIRES: gradient and weights of equal size n, state of state_floats(n); step.step >= 1.
  virtual void Apply(const OptimizerStep& step, absl::Span<const float> gradient,
                     absl::Span<float> weights, absl::Span<float> state) const = 0;

  // Counts a step that another rule made of the weights in what the state has of the weights
  // themselves, which is nothing unless there is an average.
  virtual void FollowWeights(absl::Span<const float> weights, absl::Span<float> state) const {}
};

// Says if a span has elements of a dense tensor or one row of a sparse table. Only row-wise Adagrad
// tells them apart.
enum class Granularity { kElements, kRow };

// Creates the optimizer that a specification names. InvalidArgument: the name is unknown, the
// learning rate or an option is out of range, or the optimizer does not use an option; the message
// names the field, the value and what would be right.
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateOptimizer(const v1::OptimizerSpec& spec,
                                                                 Granularity granularity);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_OPTIMIZER_H_
