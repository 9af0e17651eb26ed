#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_NORM_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_NORM_H_

#include <cstdint>

#include "common/kernels/transformer/dropout.h"
#include "common/tensor/bfloat16.h"

namespace muster {

enum class NormKind {
  // (x - mean) · rstd, rstd = 1 / sqrt(variance + epsilon).
  kLayerNorm,
  // x · rstd, rstd = 1 / sqrt(mean of x² + epsilon).
  kRmsNorm,
};

// Norms of the residual stream, together with the addition of a branch to it:
//   sum = x + dropout(branch);  out = norm(sum) · gain + bias
// The stream and its gradient are f32; the branch and the norm's output, which enter and leave
// matrix products, are T: float, BFloat16 or Float16. Arrays are [rows, width], dense and
// row-major.
//
// Arithmetic is f32; sums within a row run in 16 lanes that are joined in one order: for one
// instruction set the same bits on any number of threads. On ComputeThreads() threads; thread-safe.
struct NormShape {
  NormKind kind = NormKind::kLayerNorm;
  int64_t rows = 0;
  // C >= 1.
  int64_t width = 0;
  float epsilon = 1e-5f;
};

template <typename T>
struct NormInputs {
  const float* x = nullptr;
  // Null for none: sum = x.
  const T* branch = nullptr;
  // Of the branch; null for none. Then rows are dropout.examples · (dropout.size / width).
  const DropoutMask* mask = nullptr;
  DropoutShape dropout;
  // [width]; bias may be null.
  const float* gain = nullptr;
  const float* bias = nullptr;
};

template <typename T>
struct NormOutputs {
  // Null where there is no branch. May be x.
  float* sum = nullptr;
  // May alias the branch.
  T* out = nullptr;
  // [rows] each, for backward. mean is not used for kRmsNorm.
  float* mean = nullptr;
  float* rstd = nullptr;
};

template <typename T>
void Norm(const NormShape& shape, const NormInputs<T>& in, const NormOutputs<T>& out);

template <typename T>
struct NormBackwardInputs {
  // What was normalised: NormOutputs::sum, or x where there was no branch.
  const float* sum = nullptr;
  const float* gain = nullptr;
  // mean is not used for kRmsNorm.
  const float* mean = nullptr;
  const float* rstd = nullptr;
  // Gradient of `out`.
  const T* dout = nullptr;
  // Gradient that reaches the sum by the residual stream; null for none.
  const float* dsum = nullptr;
  // Forward's, for `dbranch`.
  const DropoutMask* mask = nullptr;
  DropoutShape dropout;
};

template <typename T>
struct NormGradients {
  // dsum + the norm's input gradient: the gradient of x. May be dsum.
  float* dx = nullptr;
  // The gradient of the branch: dx rounded to T, and dropped as forward did. Null for none; with T
  // float and no dropout it is dx itself and need not be made. May be dout.
  T* dbranch = nullptr;
  // Gradients are added to these, [width] each; bias may be null. Sums are in f32, over 32 equal
  // runs of rows, then over the runs in order.
  float* gain = nullptr;
  float* bias = nullptr;
};

template <typename T>
void NormBackward(const NormShape& shape, const NormBackwardInputs<T>& in,
                  const NormGradients<T>& gradients);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_NORM_H_
