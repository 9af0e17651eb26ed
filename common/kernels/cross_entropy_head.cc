#include "common/kernels/cross_entropy_head.h"

#include <algorithm>
#include <vector>

#include "common/kernels/gemm.h"
#include "common/kernels/parallel_for.h"
#include "common/kernels/vector_kernels.h"

namespace muster {
namespace {

int64_t ChunkRows(const HeadShape& shape) {
  constexpr int64_t kLogits = (int64_t{64} << 20) / sizeof(float);
  constexpr int64_t kFewest = 16;
  const int64_t rows = shape.chunk_rows != 0
                           ? shape.chunk_rows
                           : std::max(kFewest, kLogits / std::max<int64_t>(1, shape.vocabulary));
  return std::min(rows, shape.rows);
}

// Sums of ranges of rows, added in order.
template <typename T>
HeadSums CrossEntropyRows(LogitsShape shape, const float* logits, const int32_t* labels,
                          float gradient_scale, float* losses, T* dlogits, int64_t dlogits_stride) {
  constexpr int64_t kGrain = 1 << 13;
  if (shape.columns == 0) shape.columns = shape.vocabulary;
  const int64_t rows = shape.rows;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, shape.vocabulary));
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  std::vector<HeadSums> parts((rows + grain - 1) / grain);
  ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
    parts[begin / grain] = kernels.cross_entropy(shape, logits, labels, gradient_scale, losses,
                                                 dlogits, dlogits_stride, begin, end);
  });
  HeadSums sums;
  for (const HeadSums& part : parts) {
    sums.loss += part.loss;
    sums.tokens += part.tokens;
    sums.correct += part.correct;
  }
  return sums;
}

template <typename T>
constexpr int64_t kPerFloat = sizeof(float) / sizeof(T);

}  // namespace

template <typename T>
HeadSums SoftmaxCrossEntropyRows(const LogitsShape& shape, const float* logits,
                                 const int32_t* labels, float gradient_scale, T* dlogits,
                                 int64_t dlogits_stride) {
  return CrossEntropyRows<T>(shape, logits, labels, gradient_scale, nullptr, dlogits,
                             dlogits_stride);
}

int64_t CrossEntropyHeadScratch(const HeadShape& shape) {
  return ChunkRows(shape) * shape.vocabulary;
}

template <typename T>
HeadSums CrossEntropyHead(const HeadShape& shape, const HeadInputs<T>& in,
                          const HeadOutputs<T>& out, float* scratch) {
  const int64_t C = shape.width, V = shape.vocabulary;
  const int64_t chunk = ChunkRows(shape);
  const bool gradients = out.dh != nullptr || out.weight_gradient != nullptr;
  HeadSums sums;
  for (int64_t begin = 0; begin < shape.rows; begin += chunk) {
    const int64_t n = std::min(chunk, shape.rows - begin);
    const T* h = in.h + begin * C;
    Gemm(n, V, C, h, in.weight, scratch, {.transpose_b = Transpose::kYes});
    // Over the logits, each row at the start of its own.
    T* dlogits = gradients ? reinterpret_cast<T*>(scratch) : nullptr;
    const int64_t stride = V * kPerFloat<T>;
    const HeadSums part = CrossEntropyRows<T>(
        {.rows = n, .vocabulary = V}, scratch, in.labels + begin, in.gradient_scale,
        out.losses != nullptr ? out.losses + begin : nullptr, dlogits, stride);
    sums.loss += part.loss;
    sums.tokens += part.tokens;
    sums.correct += part.correct;
    if (out.weight_gradient != nullptr) {
      Gemm(V, C, n, dlogits, h, out.weight_gradient,
           {.transpose_a = Transpose::kYes, .a_stride = stride, .accumulate = Accumulate::kYes});
    }
    if (out.dh != nullptr) {
      Gemm(n, C, V, dlogits, in.weight, out.dh + begin * C, {.a_stride = stride});
    }
  }
  return sums;
}

template <typename T>
void HeadLogits(const HeadShape& shape, const T* h, const T* weight, float* logits) {
  Gemm(shape.rows, shape.vocabulary, shape.width, h, weight, logits,
       {.transpose_b = Transpose::kYes});
}

template HeadSums SoftmaxCrossEntropyRows(const LogitsShape&, const float*, const int32_t*, float,
                                          float*, int64_t);
template HeadSums SoftmaxCrossEntropyRows(const LogitsShape&, const float*, const int32_t*, float,
                                          BFloat16*, int64_t);
template HeadSums SoftmaxCrossEntropyRows(const LogitsShape&, const float*, const int32_t*, float,
                                          Float16*, int64_t);
template HeadSums CrossEntropyHead(const HeadShape&, const HeadInputs<float>&,
                                   const HeadOutputs<float>&, float*);
template HeadSums CrossEntropyHead(const HeadShape&, const HeadInputs<BFloat16>&,
                                   const HeadOutputs<BFloat16>&, float*);
template HeadSums CrossEntropyHead(const HeadShape&, const HeadInputs<Float16>&,
                                   const HeadOutputs<Float16>&, float*);
template void HeadLogits(const HeadShape&, const float*, const float*, float*);
template void HeadLogits(const HeadShape&, const BFloat16*, const BFloat16*, float*);
template void HeadLogits(const HeadShape&, const Float16*, const Float16*, float*);

}  // namespace muster
