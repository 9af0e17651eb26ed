#ifndef MUSTER_WORKER_NN_LINEAR_ROWS_H_
#define MUSTER_WORKER_NN_LINEAR_ROWS_H_

#include <cstdint>

#include "common/kernels/gemm.h"
#include "common/kernels/row_sums.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/transformer_arrays.h"

namespace muster {

// The three products of a linear layer with weights [out, in], as a transformer's layers call them.
// All arrays are dense and row-major; N rows.
struct LinearShape {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
};

// y [N, out] = x [N, in] · weightᵀ + bias (null: none).
template <typename T, typename Out>
void LinearForward(const LinearShape& shape, const T* x, const T* weight, const float* bias,
                   Out* y) {
  Gemm(shape.rows, shape.out, shape.in, x, weight, y,
       {.transpose_b = Transpose::kYes, .bias = bias});
}

// dx [N, in] = dy [N, out] · weight.
template <typename T>
void LinearBackwardInput(const LinearShape& shape, const T* dy, const T* weight, T* dx) {
  Gemm(shape.rows, shape.in, shape.out, dy, weight, dx);
}

// weight_gradient [out, in] = or += dyᵀ · x, bias_gradient [out] (null: none) = or += the rows' sum
// of dy.
template <typename T>
void LinearBackwardWeights(const LinearShape& shape, const T* dy, const T* x,
                           Accumulation accumulation, const LayerGradients& gradients) {
  Gemm(shape.out, shape.in, shape.rows, dy, x, gradients.weight,
       {.transpose_a = Transpose::kYes, .accumulation = accumulation});
  if (gradients.bias == nullptr) return;
  if (accumulation == Accumulation::kWrite) SetToZero(shape.out, gradients.bias);
  AddRowSums(shape.rows, shape.out, shape.out, dy, gradients.bias);
}

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LINEAR_ROWS_H_
