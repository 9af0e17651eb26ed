#include "common/kernels/sparse_rows.h"

#include <algorithm>

#include "common/base/machine/simd_clones.h"

namespace muster {

MUSTER_SIMD_CLONES
void JoinRows(const JoinShape& shape, const int32_t* index, const float* rows, float* joined) {
  for (int64_t i = 0; i < shape.examples; ++i) {
    float* out = joined + i * shape.stride;
    for (int64_t l = 0; l < shape.lookups; ++l, ++index, out += shape.width) {
      const float* row = rows + *index * shape.row_dim + shape.column;
      std::copy(row, row + shape.width, out);
    }
  }
}

MUSTER_SIMD_CLONES
void JoinRowsBackward(const JoinShape& shape, const int32_t* index, const float* joined_gradient,
                      float* row_gradients) {
  for (int64_t i = 0; i < shape.examples; ++i) {
    const float* in = joined_gradient + i * shape.stride;
    for (int64_t l = 0; l < shape.lookups; ++l, ++index, in += shape.width) {
      float* row = row_gradients + *index * shape.row_dim + shape.column;
      MUSTER_INDEPENDENT_ITERATIONS
      for (int64_t c = 0; c < shape.width; ++c) row[c] += in[c];
    }
  }
}

MUSTER_SIMD_CLONES
void AddWeightedRows(const WeightedRows& features, const float* rows, float* out) {
  for (int64_t i = 0; i < features.examples; ++i, out += features.width) {
    for (int64_t k = features.offsets[i]; k < features.offsets[i + 1]; ++k) {
      const float value = features.values[k];
      const float* row = rows + features.index[k] * features.row_dim;
      MUSTER_INDEPENDENT_ITERATIONS
      for (int64_t c = 0; c < features.width; ++c) out[c] += value * row[c];
    }
  }
}

MUSTER_SIMD_CLONES
void AddWeightedRowsBackward(const WeightedRows& features, const float* out_gradient,
                             float* row_gradients) {
  for (int64_t i = 0; i < features.examples; ++i, out_gradient += features.width) {
    for (int64_t k = features.offsets[i]; k < features.offsets[i + 1]; ++k) {
      const float value = features.values[k];
      float* row = row_gradients + features.index[k] * features.row_dim;
      MUSTER_INDEPENDENT_ITERATIONS
      for (int64_t c = 0; c < features.width; ++c) row[c] += value * out_gradient[c];
    }
  }
}

}  // namespace muster
