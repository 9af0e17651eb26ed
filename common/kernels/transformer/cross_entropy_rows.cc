#include "common/kernels/transformer/cross_entropy_rows.h"

#include <algorithm>
#include <vector>

#include "common/kernels/parallel_for.h"
#include "common/kernels/transformer/vector_kernels.h"

namespace muster {

template <typename T>
HeadSums SoftmaxCrossEntropyRows(const LogitsShape& shape, const float* logits,
                                 const int32_t* labels, float gradient_scale, T* dlogits,
                                 int64_t dlogits_stride) {
  constexpr int64_t kGrain = 1 << 13;
  LogitsShape padded = shape;
  if (padded.columns == 0) padded.columns = shape.vocabulary;
  const int64_t rows = shape.rows;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, shape.vocabulary));
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  // Sums of ranges of rows, added in order.
  std::vector<HeadSums> parts((rows + grain - 1) / grain);
  ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
    parts[begin / grain] = kernels.cross_entropy(padded, logits, labels, gradient_scale, dlogits,
                                                 dlogits_stride, begin, end);
  });
  HeadSums sums;
  for (const HeadSums& part : parts) {
    sums.loss += part.loss;
    sums.tokens += part.tokens;
    sums.correct += part.correct;
  }
  return sums;
}

template HeadSums SoftmaxCrossEntropyRows(const LogitsShape&, const float*, const int32_t*, float,
                                          float*, int64_t);
template HeadSums SoftmaxCrossEntropyRows(const LogitsShape&, const float*, const int32_t*, float,
                                          BFloat16*, int64_t);
template HeadSums SoftmaxCrossEntropyRows(const LogitsShape&, const float*, const int32_t*, float,
                                          Float16*, int64_t);

}  // namespace muster
