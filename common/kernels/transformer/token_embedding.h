#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_TOKEN_EMBEDDING_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_TOKEN_EMBEDDING_H_

#include <cstdint>

namespace muster {

// Rows of B sequences of T tokens each, packed one after another.
struct TokenEmbeddingShape {
  // B · T.
  int64_t rows = 0;
  // T, of whole sequences: row r is at position first_position + r % context of its sequence, or
  // token_positions[r].
  int64_t context = 0;
  int64_t first_position = 0;
  // C.
  int64_t width = 0;
  // Rows of the table.
  int64_t vocabulary = 0;
  // The token of the table's first row, and the number of tokens; 0: those of the table.
  int64_t first_token = 0;
  int64_t tokens = 0;
  // AttentionShape::token_positions, [rows]; null: positions follow from the rows.
  const int32_t* token_positions = nullptr;

  int64_t PositionOf(int64_t row) const {
    return token_positions != nullptr ? token_positions[row] : first_position + row % context;
  }
};

// out[r, :] = table[row of tokens[r], :] + positions[position of r, :], in f32: the residual
// stream. table is [vocabulary, C], positions [at least first_position + context, C] or null for
// none (rotary), out [rows, C]; all dense, no overlap. A token without a row in the table counts as
// zeros. REQUIRES: tokens[r] >= 0. On ComputeThreads() threads; the same bits on any number of
// them. Thread-safe.
void TokenEmbedding(const TokenEmbeddingShape& shape, const int32_t* tokens, const float* table,
                    const float* positions, float* out);

// table_gradient[row of tokens[r], :] += dout[r, :], position_gradient[position of r, :] += dout[r,
// :], each sum in order of r. All f32; position_gradient may be null. On ComputeThreads() threads,
// which divide the columns among them: the same bits on any number. Thread-safe for distinct
// gradients.
void TokenEmbeddingBackward(const TokenEmbeddingShape& shape, const int32_t* tokens,
                            const float* dout, float* table_gradient, float* position_gradient);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_TOKEN_EMBEDDING_H_
