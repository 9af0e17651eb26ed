#include "common/kernels/transformer/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/kernels/aligned_floats.h"
#include "common/kernels/parallel_for.h"
#include "common/kernels/transformer/attention_tiles.h"
#include "common/kernels/transformer/vector_kernels.h"

namespace muster {
namespace {

AlignedFloats& ThreadScratch() {
  thread_local AlignedFloats scratch;
  return scratch;
}

int64_t QkvStride(const AttentionShape& shape) {
  return shape.qkv_stride != 0 ? shape.qkv_stride : (shape.H + 2 * shape.KV) * shape.D;
}

// Returns the part of whole sequences, whose keys and values lie behind their own queries.
AttentionPart Whole(const AttentionShape& shape) {
  return {.queries = shape.T,
          .keys = shape.T,
          .query_rows = shape.T,
          .key_rows = shape.T,
          .key_stride = QkvStride(shape)};
}

template <typename T>
void Forward(const AttentionShape& shape, const AttentionPart& part,
             const AttentionDropout& dropout, const AttentionLoopArrays<T>& arrays) {
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  const int64_t pieces = (part.queries + kQueriesOfUnit - 1) / kQueriesOfUnit;
  ParallelFor(shape.B * shape.H * pieces, 1, [&](int64_t unit, int64_t) {
    const int64_t begin = unit % pieces * kQueriesOfUnit;
    const int64_t end = std::min(begin + kQueriesOfUnit, part.queries);
    float* scratch = ThreadScratch().Reserve(AttentionScratch(part.keys, shape.D));
    kernels.attention(shape, part, dropout, arrays, unit / pieces / shape.H,
                      unit / pieces % shape.H, begin, end, scratch);
  });
}

template <typename T>
void Backward(const AttentionShape& shape, const AttentionPart& part,
              const AttentionDropout& dropout, const AttentionBackwardLoopArrays<T>& arrays) {
  if (part.queries == 0) return;
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  ParallelFor(shape.B * shape.KV, 1, [&](int64_t unit, int64_t) {
    float* scratch = ThreadScratch().Reserve(AttentionBackwardScratch(part.keys, shape.D));
    kernels.attention_backward(shape, part, dropout, arrays, unit / shape.KV, unit % shape.KV,
                               scratch);
  });
}

}  // namespace

template <typename T>
void Attention(const AttentionShape& shape, const T* qkv, T* out, float* logsumexp,
               const AttentionDropout& dropout) {
  Forward<T>(shape, Whole(shape), dropout,
             {.queries = qkv, .keys = qkv + shape.H * shape.D, .out = out, .logsumexp = logsumexp});
}

template <typename T>
void AttentionBackward(const AttentionShape& shape, const T* qkv, const T* out,
                       const float* logsumexp, const T* dout, T* dqkv,
                       const AttentionDropout& dropout) {
  Backward<T>(shape, Whole(shape), dropout,
              {.queries = qkv,
               .keys = qkv + shape.H * shape.D,
               .logsumexp = logsumexp,
               .dout = dout,
               .out = out,
               .dqueries = dqkv,
               .dkeys = dqkv + shape.H * shape.D});
}

template <typename T>
void AttentionOfPart(const AttentionShape& shape, const AttentionPart& part, const T* queries,
                     const T* keys_values, Accumulation accumulation, float* out, float* logsumexp,
                     const AttentionDropout& dropout) {
  Forward<T>(shape, part, dropout,
             {.queries = queries,
              .keys = keys_values,
              .accumulation = accumulation,
              .part_out = out,
              .logsumexp = logsumexp});
}

template <typename T>
void AttentionDelta(const AttentionShape& shape, int64_t rows, const T* out, const T* dout,
                    float* delta) {
  // Elements that are worth a thread's while.
  constexpr int64_t kGrain = 1 << 14;
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  ParallelFor(shape.B * rows, std::max<int64_t>(1, kGrain / (shape.H * shape.D + 1)),
              [&](int64_t begin, int64_t end) {
                kernels.attention_delta(shape, rows, out, dout, begin, end, delta);
              });
}

template <typename T>
void AttentionPartBackward(const AttentionShape& shape, const AttentionPart& part,
                           const AttentionPartGradients<T>& arrays,
                           const AttentionDropout& dropout) {
  Backward<T>(shape, part, dropout,
              {.queries = arrays.queries,
               .keys = arrays.keys_values,
               .logsumexp = arrays.logsumexp,
               .dout = arrays.dout,
               .delta = arrays.delta,
               .part_dqueries = arrays.dqueries,
               .part_dkeys = arrays.dkeys_values});
}

void AppendKeyValues(const AttentionShape& shape, int64_t first_position, const float* qkv,
                     const KeyValueCache& cache) {
  const int64_t D = shape.D;
  for (int64_t b = 0; b < shape.B; ++b) {
    for (int64_t t = 0; t < shape.T; ++t) {
      const float* keys = qkv + (b * shape.T + t) * QkvStride(shape) + shape.H * D;
      const float* values = keys + shape.KV * D;
      for (int64_t kv = 0; kv < shape.KV; ++kv) {
        const int64_t place = ((b * shape.KV + kv) * cache.capacity + first_position + t) * D;
        std::memcpy(cache.keys + place, keys + kv * D, D * sizeof(float));
        std::memcpy(cache.values + place, values + kv * D, D * sizeof(float));
      }
    }
  }
}

void CachedAttention(const AttentionShape& shape, int64_t first_position, const float* qkv,
                     const KeyValueCache& cache, float* out) {
  const VectorKernels& kernels = ActiveVectorKernels();
  const int64_t D = shape.D;
  const int64_t out_stride = shape.out_stride != 0 ? shape.out_stride : shape.H * D;
  const float scale = shape.scale != 0
                          ? shape.scale
                          : 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(D, 1)));
  // A thread takes the heads of as many tokens as make some 10 µs.
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / ((first_position + shape.T) * D + 1));
  ParallelFor(shape.B * shape.T * shape.H, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / shape.H, h = i % shape.H;
      const int64_t b = row / shape.T, t = row % shape.T;
      const int64_t seen = first_position + t + 1;
      const int64_t length = shape.window > 0 ? std::min(seen, shape.window) : seen;
      const int64_t head =
          ((b * shape.KV + h / (shape.H / shape.KV)) * cache.capacity + seen - length) * D;
      kernels.cached_attention(D, length, scale, qkv + row * QkvStride(shape) + h * D,
                               cache.keys + head, cache.values + head,
                               ThreadScratch().Reserve(PaddedHead(length)),
                               out + row * out_stride + h * D);
    }
  });
}

template void Attention(const AttentionShape&, const float*, float*, float*,
                        const AttentionDropout&);
template void Attention(const AttentionShape&, const BFloat16*, BFloat16*, float*,
                        const AttentionDropout&);
template void Attention(const AttentionShape&, const Float16*, Float16*, float*,
                        const AttentionDropout&);
template void AttentionBackward(const AttentionShape&, const float*, const float*, const float*,
                                const float*, float*, const AttentionDropout&);
template void AttentionBackward(const AttentionShape&, const BFloat16*, const BFloat16*,
                                const float*, const BFloat16*, BFloat16*, const AttentionDropout&);
template void AttentionBackward(const AttentionShape&, const Float16*, const Float16*, const float*,
                                const Float16*, Float16*, const AttentionDropout&);
template void AttentionOfPart(const AttentionShape&, const AttentionPart&, const float*,
                              const float*, Accumulation, float*, float*, const AttentionDropout&);
template void AttentionOfPart(const AttentionShape&, const AttentionPart&, const BFloat16*,
                              const BFloat16*, Accumulation, float*, float*,
                              const AttentionDropout&);
template void AttentionOfPart(const AttentionShape&, const AttentionPart&, const Float16*,
                              const Float16*, Accumulation, float*, float*,
                              const AttentionDropout&);
template void AttentionDelta(const AttentionShape&, int64_t, const float*, const float*, float*);
template void AttentionDelta(const AttentionShape&, int64_t, const BFloat16*, const BFloat16*,
                             float*);
template void AttentionDelta(const AttentionShape&, int64_t, const Float16*, const Float16*,
                             float*);
template void AttentionPartBackward(const AttentionShape&, const AttentionPart&,
                                    const AttentionPartGradients<float>&, const AttentionDropout&);
template void AttentionPartBackward(const AttentionShape&, const AttentionPart&,
                                    const AttentionPartGradients<BFloat16>&,
                                    const AttentionDropout&);
template void AttentionPartBackward(const AttentionShape&, const AttentionPart&,
                                    const AttentionPartGradients<Float16>&,
                                    const AttentionDropout&);

}  // namespace muster
