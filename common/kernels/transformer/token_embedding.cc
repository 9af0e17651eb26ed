#include "common/kernels/transformer/token_embedding.h"

#include <algorithm>

#include "common/kernels/parallel_for.h"
#include "common/kernels/transformer/vector_kernels.h"

namespace muster {
namespace {

// Returns the token's row of the table; -1 if it has none there.
int64_t RowOf(const TokenEmbeddingShape& shape, int32_t token) {
  const int64_t row = token - shape.first_token;
  return row >= 0 && row < shape.vocabulary ? row : -1;
}

}  // namespace

void TokenEmbedding(const TokenEmbeddingShape& shape, const int32_t* tokens, const float* table,
                    const float* positions, float* out) {
  constexpr int64_t kGrain = 1 << 14;
  const int64_t C = shape.width;
  if (C == 0) return;
  const VectorKernels& kernels = ActiveVectorKernels();
  ParallelFor(shape.rows, std::max<int64_t>(1, kGrain / C), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* position = positions != nullptr ? positions + shape.PositionOf(r) * C : nullptr;
      const int64_t row = RowOf(shape, tokens[r]);
      if (row >= 0) {
        kernels.embed(C, table + row * C, position, out + r * C);
      } else if (position != nullptr) {
        std::copy_n(position, C, out + r * C);
      } else {
        std::fill_n(out + r * C, C, 0.0f);
      }
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
      const int64_t at = RowOf(shape, tokens[r]);
      if (at >= 0 && table_gradient != nullptr)
        kernels.add(end - begin, row, table_gradient + at * C + begin);
      if (position_gradient == nullptr) continue;
      kernels.add(end - begin, row, position_gradient + shape.PositionOf(r) * C + begin);
    }
  });
}

}  // namespace muster
