#include "common/kernels/transformer/token_embedding.h"

#include <algorithm>

#include "common/kernels/parallel_for.h"
#include "common/kernels/transformer/vector_kernels.h"

namespace muster {

void TokenEmbedding(const TokenEmbeddingShape& shape, const int32_t* tokens, const float* table,
                    const float* positions, float* out) {
  constexpr int64_t kGrain = 1 << 14;
  const int64_t C = shape.width;
  if (C == 0) return;
  const VectorKernels& kernels = ActiveVectorKernels();
  ParallelFor(shape.rows, std::max<int64_t>(1, kGrain / C), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* position = positions != nullptr
                                  ? positions + (shape.first_position + r % shape.context) * C
                                  : nullptr;
      kernels.embed(C, table + tokens[r] * C, position, out + r * C);
    }
  });
}

void TokenEmbeddingBackward(const TokenEmbeddingShape& shape, const int32_t* tokens,
                            const float* dout, float* table_gradient, float* position_gradient) {
  // Two rows of cache lines: columns of a thread lie apart from those of another.
  constexpr int64_t kColumns = 64;
  const int64_t C = shape.width;
  const VectorKernels& kernels = ActiveVectorKernels();
  ParallelFor(C, kColumns, [&](int64_t begin, int64_t end) {
    for (int64_t r = 0; r < shape.rows; ++r) {
      const float* row = dout + r * C + begin;
      kernels.add(end - begin, row, table_gradient + tokens[r] * C + begin);
      if (position_gradient == nullptr) continue;
      const int64_t position = shape.first_position + r % shape.context;
      kernels.add(end - begin, row, position_gradient + position * C + begin);
    }
  });
}

}  // namespace muster
