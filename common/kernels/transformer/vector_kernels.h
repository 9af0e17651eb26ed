#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_VECTOR_KERNELS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_VECTOR_KERNELS_H_

#include <cstdint>

#include "common/kernels/accumulation.h"
#include "common/kernels/transformer/attention.h"
#include "common/kernels/transformer/cross_entropy_rows.h"
#include "common/kernels/transformer/head_norm.h"
#include "common/kernels/transformer/norm.h"
#include "common/kernels/transformer/rotary.h"
#include "common/tensor/bfloat16.h"

namespace muster {

// The arrays of the loops of attention, of the whole or a part: keys are those of key head 0, and
// their values lie KV · D behind them. Results are either rounded, or f32 of a part; the others are
// null.
template <typename T>
struct AttentionLoopArrays {
  const T* queries = nullptr;
  const T* keys = nullptr;
  // The way in which part_out and its logsumexp are left.
  Accumulation accumulation = Accumulation::kWrite;
  T* out = nullptr;
  float* part_out = nullptr;
  // Null only beside `out`.
  float* logsumexp = nullptr;
};
template <typename T>
struct AttentionBackwardLoopArrays {
  const T* queries = nullptr;
  const T* keys = nullptr;
  const float* logsumexp = nullptr;
  const T* dout = nullptr;
  // Either the outputs or AttentionDelta's of them.
  const T* out = nullptr;
  const float* delta = nullptr;
  // Written, with the strides of queries and keys.
  T* dqueries = nullptr;
  T* dkeys = nullptr;
  // Dense, and added to.
  float* part_dqueries = nullptr;
  float* part_dkeys = nullptr;
};

// The loops of the transformer's kernels, compiled once per instruction set: *_loops.h, which
// vector_kernels_{baseline,avx2,avx512}.cc include. Single-threaded, on a part of the work; the
// public functions divide it. Private to common/kernels and its tests.
template <typename T>
struct TypedVectorKernels {
  // y = x, rounded; y = x, widened.
  void (*narrow)(int64_t n, const float* x, T* y);
  void (*widen)(int64_t n, const T* x, float* y);
  // sums[c] += sum over r of x[r, c].
  void (*row_sums)(int64_t rows, int64_t cols, int64_t stride, const T* x, float* sums);

  void (*gelu)(int64_t n, const T* x, T* y);
  void (*gelu_backward)(int64_t n, const T* x, const T* dy, T* dx);
  void (*swiglu)(int64_t rows, int64_t F, const T* gate_up, T* y);
  void (*swiglu_backward)(int64_t rows, int64_t F, const T* gate_up, const T* dy, T* d_gate_up);

  // These take rows of experts (common/kernels/moe/expert_arrays.h), and weights by assignment.
  void (*weighted_gelu)(int64_t rows, int64_t F, const int32_t* assignments, const float* weights,
                        const T* x, T* y);
  void (*weighted_gelu_backward)(int64_t rows, int64_t F, const int32_t* assignments,
                                 const float* weights, const T* x, const T* dy, T* dx,
                                 float* dweights);
  void (*weighted_swiglu)(int64_t rows, int64_t F, const int32_t* assignments, const float* weights,
                          const T* gate_up, T* y);
  void (*weighted_swiglu_backward)(int64_t rows, int64_t F, const int32_t* assignments,
                                   const float* weights, const T* gate_up, const T* dy,
                                   T* d_gate_up, float* dweights);
  // out[n] = the three bases, as far as they are not null, + rows places[0 … count) of `rows`, of
  // n columns, in f32.
  void (*sum_of_rows)(int64_t n, int64_t count, const T* rows, const int32_t* places,
                      const T* const* bases, T* out);
  // y = factor · x; and dx = factor · dy, returning dy · x.
  void (*scale_row)(int64_t n, float factor, const T* x, T* y);
  float (*scale_row_backward)(int64_t n, float factor, const T* x, const T* dy, T* dx);

  // Of rows [begin, end).
  void (*norm)(const NormShape& shape, const NormInputs<T>& in, const NormOutputs<T>& out,
               int64_t begin, int64_t end);
  // gain_sums, bias_sums: [width], added to; bias_sums may be null.
  void (*norm_backward)(const NormShape& shape, const NormBackwardInputs<T>& in,
                        const NormGradients<T>& gradients, int64_t begin, int64_t end,
                        float* gain_sums, float* bias_sums);
  // These compute rows [begin, end); gain_sums [width] are added to.
  void (*head_norm)(const HeadNormShape& shape, const float* gain, int64_t begin, int64_t end, T* x,
                    T* kept);
  void (*head_norm_backward)(const HeadNormShape& shape, const T* kept, const float* gain,
                             int64_t begin, int64_t end, T* dx, float* gain_sums);
  // `direction` is 1, or -1 to turn back.
  void (*rotary)(const RotaryShape& shape, const float* table, float direction, int64_t begin,
                 int64_t end, T* x);

  // Rows [begin, end); dlogits may be null.
  HeadSums (*cross_entropy)(const LogitsShape& shape, const float* logits, const int32_t* labels,
                            float gradient_scale, T* dlogits, int64_t dlogits_stride, int64_t begin,
                            int64_t end);

  HeadSums (*cross_entropy_of_parts)(const VocabularyShape& shape, int ranks,
                                     const SoftmaxPart* parts, const float* logits,
                                     const int32_t* labels, float gradient_scale, T* dlogits,
                                     int64_t dlogits_stride, int64_t begin, int64_t end);

  // Queries [begin, end), at least one, of head h of sequence b.
  void (*attention)(const AttentionShape& shape, const AttentionPart& part,
                    const AttentionDropout& dropout, const AttentionLoopArrays<T>& arrays,
                    int64_t b, int64_t h, int64_t begin, int64_t end, float* scratch);
  // Rows [begin, end) of B · rows.
  void (*attention_delta)(const AttentionShape& shape, int64_t rows, const T* out, const T* dout,
                          int64_t begin, int64_t end, float* delta);
  // All of key-value head `kv` of sequence b and the query heads that share it.
  void (*attention_backward)(const AttentionShape& shape, const AttentionPart& part,
                             const AttentionDropout& dropout,
                             const AttentionBackwardLoopArrays<T>& arrays, int64_t b, int64_t kv,
                             float* scratch);
};

struct VectorKernels {
  // Such as "avx512".
  const char* name;
  void (*exp)(int64_t n, const float* x, float* y);
  // y += x.
  void (*add)(int64_t n, const float* x, float* y);
  // out = a + b, b perhaps null.
  void (*embed)(int64_t n, const float* a, const float* b, float* out);
  // y = x · factors.
  void (*scale)(int64_t n, const float* factors, const float* x, float* y);
  // x *= factor; whether all of it is finite then.
  bool (*unscale)(int64_t n, float factor, float* x);
  bool (*all_finite)(int64_t n, const float* x);
  void (*dropout_factors)(const DropoutMask& mask, uint64_t example, int64_t begin, int64_t count,
                          float* factors);
  // Rows [begin, end).
  void (*softmax_parts)(const VocabularyShape& shape, const float* logits, const int32_t* labels,
                        SoftmaxPart* parts, int64_t begin, int64_t end);
  // Attends with one query [D] to the first `length` positions of its key-value head's cache, keys
  // and values [length, D]. `scratch` holds `length` floats, rounded up to a multiple of 16.
  void (*cached_attention)(int64_t D, int64_t length, float scale, const float* query,
                           const float* keys, const float* values, float* scratch, float* out);
  TypedVectorKernels<float> f32;
  TypedVectorKernels<BFloat16> bf16;
  TypedVectorKernels<Float16> f16;
};

// Null where the compiler does not target the instruction set. Whether the machine has it is the
// caller's to find out.
const VectorKernels* BaselineVectorKernels();
const VectorKernels* Avx2VectorKernels();
const VectorKernels* Avx512VectorKernels();

// Of these, what this machine can run, the best first.
struct VectorKernelList {
  const VectorKernels* kernels[3];
  int count;
};
VectorKernelList UsableVectorKernels();

// Those in use: the best, unless a test has chosen others of the usable ones for the process.
const VectorKernels& ActiveVectorKernels();
void SetVectorKernelsForTesting(const VectorKernels& kernels);

template <typename T>
const TypedVectorKernels<T>& ActiveKernelsOf();
template <>
inline const TypedVectorKernels<float>& ActiveKernelsOf<float>() {
  return ActiveVectorKernels().f32;
}
template <>
inline const TypedVectorKernels<BFloat16>& ActiveKernelsOf<BFloat16>() {
  return ActiveVectorKernels().bf16;
}
template <>
inline const TypedVectorKernels<Float16>& ActiveKernelsOf<Float16>() {
  return ActiveVectorKernels().f16;
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_VECTOR_KERNELS_H_
