#ifndef MUSTER_COMMON_PARTITION_MATRICES_H_
#define MUSTER_COMMON_PARTITION_MATRICES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"

namespace muster {

// Sets TensorSpec::matrix_rows of a model's tensors: those that hold matrices of hidden layers,
// which are trained, and have two rows and two columns at least. These are all weights of a
// transformer's blocks that products multiply with, routers and adapters among them, and those of
// a perceptron's hidden layers. Embeddings, positions, heads and output layers have none.
//
// A tensor may hold several: queries, keys and values; gate and up; and, of experts, those of each
// expert. REQUIRES: whole tensors, in their parameter groups.
void SetMatrices(absl::Span<TensorSpec> tensors);

// The elements of a tensor, or of a share of one, that belong to one of its matrices.
struct MatrixShare {
  // Elements [begin, end), which are a share of the matrix.
  uint64_t begin = 0;
  uint64_t end = 0;
  // The whole matrix: its first element among the global tensor's, and its extents.
  uint64_t global_begin = 0;
  int64_t rows = 0;
  int64_t columns = 0;

  uint64_t global_end() const {
    return global_begin + static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns);
  }
};

// Returns the shares of a tensor's matrices, in order. They make up the tensor; without
// matrix_rows there are none.
std::vector<MatrixShare> MatrixShares(const TensorSpec& tensor);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_MATRICES_H_
