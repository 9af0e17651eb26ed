#ifndef MUSTER_WORKER_NN_LAYERS_SPARSE_LINEAR_H_
#define MUSTER_WORKER_NN_LAYERS_SPARSE_LINEAR_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/sparse_rows.h"

namespace muster {

// Sparse features in compressed rows: those of example i are [offsets[i], offsets[i + 1]); offsets
// holds B + 1.
struct SparseFeatures {
  absl::Span<const int64_t> offsets;
  absl::Span<const float> values;
};

// A linear function of sparse features whose weights are rows of a table: out[i] += Σ_k value_k ·
// row(k), over the features k of example i, whose row is that of rows.inverse[k]. Holds shapes
// only. Thread-safe.
class SparseLinear {
 public:
  struct Shape {
    // Floats per row of the table; of these [0, width) are used.
    int64_t row_dim = 0;
    int64_t width = 0;
  };

  explicit SparseLinear(const Shape& shape) : shape_(shape) {}

  // Adds to `out`, [B, width].
  void Forward(const LayerContext& context, const SparseFeatures& features, const SparseRows& rows,
               absl::Span<float> out) const;

  // Adds to the used columns of rows.gradients, in order of use.
  void BackwardRows(const LayerContext& context, const SparseFeatures& features,
                    absl::Span<const float> out_gradient, SparseRows& rows) const;

 private:
  const Shape shape_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYERS_SPARSE_LINEAR_H_
