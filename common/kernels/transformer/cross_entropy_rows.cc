#include "common/kernels/transformer/cross_entropy_rows.h"

#include <algorithm>
#include <vector>

#include "common/kernels/parallel_for.h"
#include "common/kernels/transformer/vector_kernels.h"

namespace muster {

namespace {

constexpr int64_t kCrossEntropyGrain = 1 << 13;

LogitsShape Padded(LogitsShape shape) {
  if (shape.columns == 0) shape.columns = shape.vocabulary;
  return shape;
}

int64_t GrainOf(const LogitsShape& shape) {
  return std::max<int64_t>(1, kCrossEntropyGrain / std::max<int64_t>(1, shape.vocabulary));
}

// Adds the sums of ranges of rows in order.
template <typename Range>
HeadSums SumsOfRanges(const LogitsShape& shape, Range range) {
  const int64_t grain = GrainOf(shape);
  std::vector<HeadSums> parts((shape.rows + grain - 1) / grain);
  ParallelFor(shape.rows, grain,
              [&](int64_t begin, int64_t end) { parts[begin / grain] = range(begin, end); });
  HeadSums sums;
  for (const HeadSums& part : parts) {
    sums.loss += part.loss;
    sums.tokens += part.tokens;
    sums.correct += part.correct;
  }
  return sums;
}

}  // namespace

template <typename T>
HeadSums SoftmaxCrossEntropyRows(const LogitsShape& shape, const float* logits,
                                 const int32_t* labels, float gradient_scale, T* dlogits,
                                 int64_t dlogits_stride) {
  const LogitsShape padded = Padded(shape);
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  return SumsOfRanges(padded, [&](int64_t begin, int64_t end) {
    return kernels.cross_entropy(padded, logits, labels, gradient_scale, dlogits, dlogits_stride,
                                 begin, end);
  });
}

void SoftmaxParts(const VocabularyShape& shape, const float* logits, const int32_t* labels,
                  SoftmaxPart* parts) {
  VocabularyShape padded = shape;
  padded.columns = Padded(shape.columns);
  ParallelFor(padded.columns.rows, GrainOf(padded.columns), [&](int64_t begin, int64_t end) {
    ActiveVectorKernels().softmax_parts(padded, logits, labels, parts, begin, end);
  });
}

template <typename T>
HeadSums CrossEntropyOfParts(const VocabularyShape& shape, int ranks, const SoftmaxPart* parts,
                             const float* logits, const int32_t* labels, float gradient_scale,
                             T* dlogits, int64_t dlogits_stride) {
  VocabularyShape padded = shape;
  padded.columns = Padded(shape.columns);
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  return SumsOfRanges(padded.columns, [&](int64_t begin, int64_t end) {
    return kernels.cross_entropy_of_parts(padded, ranks, parts, logits, labels, gradient_scale,
                                          dlogits, dlogits_stride, begin, end);
  });
}

template HeadSums SoftmaxCrossEntropyRows(const LogitsShape&, const float*, const int32_t*, float,
                                          float*, int64_t);
template HeadSums SoftmaxCrossEntropyRows(const LogitsShape&, const float*, const int32_t*, float,
                                          BFloat16*, int64_t);
template HeadSums SoftmaxCrossEntropyRows(const LogitsShape&, const float*, const int32_t*, float,
                                          Float16*, int64_t);
template HeadSums CrossEntropyOfParts(const VocabularyShape&, int, const SoftmaxPart*, const float*,
                                      const int32_t*, float, float*, int64_t);
template HeadSums CrossEntropyOfParts(const VocabularyShape&, int, const SoftmaxPart*, const float*,
                                      const int32_t*, float, BFloat16*, int64_t);
template HeadSums CrossEntropyOfParts(const VocabularyShape&, int, const SoftmaxPart*, const float*,
                                      const int32_t*, float, Float16*, int64_t);

}  // namespace muster
