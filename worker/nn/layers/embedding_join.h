#ifndef MUSTER_WORKER_NN_LAYERS_EMBEDDING_JOIN_H_
#define MUSTER_WORKER_NN_LAYERS_EMBEDDING_JOIN_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/sparse_rows.h"

namespace muster {

// Looks up a fixed number of rows per example and writes them side by side: use `l` of example `i`
// is rows.inverse[i * lookups + l]. Holds shapes only. Thread-safe.
class EmbeddingJoin {
 public:
  struct Shape {
    // Rows per example.
    int64_t lookups = 0;
    // Floats per row of the table; of these [column, column + width) are used.
    int64_t row_dim = 0;
    int64_t column = 0;
    int64_t width = 0;
    // Floats per example of the output, of which the first lookups * width are written. At least
    // that many.
    int64_t out_features = 0;
  };

  explicit EmbeddingJoin(const Shape& shape) : shape_(shape) {}

  // `out` is [B, out_features].
  void Forward(const LayerContext& context, const SparseRows& rows, absl::Span<float> out) const;

  // Adds to the used columns of rows.gradients, in order of use.
  void BackwardRows(const LayerContext& context, absl::Span<const float> out_gradient,
                    SparseRows& rows) const;

 private:
  const Shape shape_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYERS_EMBEDDING_JOIN_H_
