#ifndef MUSTER_COMMON_OPTIM_MATRIX_RULE_H_
#define MUSTER_COMMON_OPTIM_MATRIX_RULE_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace muster {

struct OptimizerStep;

// The rule by which Muon steps matrices (optimizer.h): everything about it that goes element by
// element. The one thing that needs whole matrices, to orthogonalise them, is between its two
// halves, and is for whoever has a whole one:
//
//   Direct              any elements of a matrix
//   Orthogonalise       whole matrices (common/kernels/orthogonalise.h)
//   Move                any elements
//
// Direct changes no momentum, so a step that ends between the halves can begin again, and Move is
// all that is left to do once the orthogonalised direction is there. Of n elements, the first n
// floats of state are the momentum, the next n the direction of the step that is being made.
// Between steps they say how the last one moved the matrix, which nobody reads. Immutable, so
// thread-safe.
class MatrixRule {
 public:
  MatrixRule(float momentum, float weight_decay)
      : momentum_(momentum), weight_decay_(weight_decay) {}

  // Writes the direction before it is orthogonalised. Spans as for Optimizer::Apply.
  void Direct(const OptimizerStep& step, absl::Span<const float> gradient,
              absl::Span<float> state) const;

  // Moves elements of a matrix [rows, columns] along the orthogonalised direction, and their
  // momentum.
  void Move(const OptimizerStep& step, int64_t rows, int64_t columns,
            absl::Span<const float> gradient, absl::Span<float> weights,
            absl::Span<float> state) const;

  // Returns the direction in the state of n elements.
  static absl::Span<float> Direction(absl::Span<float> state, size_t n) {
    return state.subspan(n, n);
  }

 private:
  const float momentum_;
  const float weight_decay_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_MATRIX_RULE_H_
