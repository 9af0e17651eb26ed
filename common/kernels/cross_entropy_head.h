#ifndef MUSTER_COMMON_KERNELS_CROSS_ENTROPY_HEAD_H_
#define MUSTER_COMMON_KERNELS_CROSS_ENTROPY_HEAD_H_

#include <cstdint>

#include "common/tensor/bfloat16.h"

namespace muster {

// The language model's head and its loss in one: logits = h · Wᵀ, softmax cross entropy, and their
// backward, by chunks of rows, so that logits of one chunk only exist at a time and probabilities
// of all tokens never do. h is [rows, C], W [V, C] (the embedding's table when tied); dense.
//
// T is float, BFloat16 or Float16. Products of 16 bits are summed in f32, logits are f32, the
// gradient of the logits is rounded to T for the two products that follow. On ComputeThreads()
// threads; for one machine type and number of threads the same inputs give the same bits.
// Thread-safe.
struct HeadShape {
  int64_t rows = 0;
  // C.
  int64_t width = 0;
  // V.
  int64_t vocabulary = 0;
  // Rows of a chunk; 0: as many as make logits of 64 MiB, at least 16.
  int64_t chunk_rows = 0;
};

// Sums over rows whose label is not -1.
struct HeadSums {
  // In nats.
  double loss = 0;
  int64_t tokens = 0;
  // Rows whose largest logit is the label's, the first among equals.
  int64_t correct = 0;
};

// Floats of scratch that the function below needs: about chunk rows × V.
int64_t CrossEntropyHeadScratch(const HeadShape& shape);

template <typename T>
struct HeadInputs {
  const T* h = nullptr;
  const T* weight = nullptr;
  // [rows], each in [0, V) or -1: such a row has no loss and a zero gradient.
  const int32_t* labels = nullptr;
  // The gradients below are of gradient_scale · the sum of the losses.
  float gradient_scale = 1;
};

template <typename T>
struct HeadOutputs {
  // Each may be null; with both gradients null this is evaluation.
  // [rows], 0 where the label is -1.
  float* losses = nullptr;
  // [rows, C], written.
  T* dh = nullptr;
  // [V, C], added to, in f32.
  float* weight_gradient = nullptr;
};

// `scratch` has CrossEntropyHeadScratch(shape) floats, aligned to 64 bytes for speed. dh may be h
// where weight_gradient is null; else no overlap.
template <typename T>
HeadSums CrossEntropyHead(const HeadShape& shape, const HeadInputs<T>& in,
                          const HeadOutputs<T>& out, float* scratch);

struct LogitsShape {
  int64_t rows = 0;
  // V: the tokens there are.
  int64_t vocabulary = 0;
  // Columns of the logits and their gradient, at least V; those from V on are padding: not read,
  // and their gradient is 0. 0: V.
  int64_t columns = 0;
};

// The part between the products, for those who make them themselves: of logits [rows, columns] the
// sums, and dlogits = gradient_scale · (softmax - onehot of the label), rows of zeros where the
// label is -1, with `dlogits_stride` elements from row to row. dlogits may be null. It may be the
// logits' memory: with T float and dlogits_stride = columns, or T of 16 bits and dlogits_stride =
// 2 · columns (each row at the start of its logits).
template <typename T>
HeadSums SoftmaxCrossEntropyRows(const LogitsShape& shape, const float* logits,
                                 const int32_t* labels, float gradient_scale, T* dlogits,
                                 int64_t dlogits_stride);

// logits = h · Wᵀ, [rows, V] f32, for generation. chunk_rows is not used.
template <typename T>
void HeadLogits(const HeadShape& shape, const T* h, const T* weight, float* logits);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_CROSS_ENTROPY_HEAD_H_
