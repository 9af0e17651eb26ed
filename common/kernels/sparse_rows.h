#ifndef MUSTER_COMMON_KERNELS_SPARSE_ROWS_H_
#define MUSTER_COMMON_KERNELS_SPARSE_ROWS_H_

#include <cstdint>

namespace muster {

// Rows of a sparse table, looked up by position in an array [rows, row_dim]. All arrays are
// row-major f32 of any alignment and do not overlap; extents may be 0. Single-threaded, stateless,
// thread-safe. Sums run in order of use, so the results are the same bits on every instruction set.

// A fixed number of rows per example, of which the same columns are written side by side.
struct JoinShape {
  int64_t examples = 0;
  int64_t lookups = 0;
  int64_t row_dim = 0;
  // Columns [column, column + width) of each row are used.
  int64_t column = 0;
  int64_t width = 0;
  // Floats from one example of the joined array to the next, at least lookups * width; what lies
  // between is left alone.
  int64_t stride = 0;
};

// joined[i, l * width + c] = rows[index[i, l], column + c].
void JoinRows(const JoinShape& shape, const int32_t* index, const float* rows, float* joined);

// row_gradients[index[i, l], column + c] += joined_gradient[i, l * width + c].
void JoinRowsBackward(const JoinShape& shape, const int32_t* index, const float* joined_gradient,
                      float* row_gradients);

// Sparse features of B examples in compressed rows: those of example i are [offsets[i], offsets[i +
// 1]).
struct WeightedRows {
  int64_t examples = 0;
  const int64_t* offsets = nullptr;
  const float* values = nullptr;
  const int32_t* index = nullptr;
  int64_t row_dim = 0;
  // Columns [0, width) of each row are used.
  int64_t width = 0;
};

// out[i, c] += sum over k of values[k] · rows[index[k], c], k being the features of example i. out
// is [B, width].
void AddWeightedRows(const WeightedRows& features, const float* rows, float* out);

// row_gradients[index[k], c] += values[k] · out_gradient[i, c].
void AddWeightedRowsBackward(const WeightedRows& features, const float* out_gradient,
                             float* row_gradients);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_SPARSE_ROWS_H_
