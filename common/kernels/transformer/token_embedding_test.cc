#include "common/kernels/transformer/token_embedding.h"

#include <vector>

#include "common/kernels/transformer/documents_for_testing.h"
#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

std::vector<int32_t> Tokens(int64_t n, int64_t vocabulary) {
  std::vector<int32_t> tokens(n);
  for (int64_t i = 0; i < n; ++i) tokens[i] = static_cast<int32_t>(i * i * 7 % vocabulary);
  return tokens;
}

const std::vector<int32_t> kEmbeddingPositions = DocumentPositions(2, 150, 3);

const TokenEmbeddingShape kShapes[] = {
    {.rows = 0, .context = 4, .width = 8, .vocabulary = 3},
    {.rows = 1, .context = 1, .width = 1, .vocabulary = 1},
    {.rows = 12, .context = 4, .first_position = 3, .width = 19, .vocabulary = 5},
    {.rows = 600, .context = 200, .width = 200, .vocabulary = 100},
    {.rows = 300,
     .context = 150,
     .width = 33,
     .vocabulary = 40,
     .token_positions = kEmbeddingPositions.data()},
};

int64_t PositionOf(const TokenEmbeddingShape& s, int64_t row) {
  return s.token_positions == nullptr ? s.first_position + row % s.context
                                      : kEmbeddingPositions[row];
}

TEST(TokenEmbeddingTest, GathersAndAddsPositions) {
  for (const TokenEmbeddingShape& s : kShapes) {
    const auto tokens = Tokens(s.rows, s.vocabulary);
    const auto table = RandomArray(s.vocabulary * s.width, 1);
    const auto positions = RandomArray((s.first_position + s.context) * s.width, 2);
    for (const bool with_positions : {false, true}) {
      ForEachInstructionSet([&] {
        std::vector<float> out(s.rows * s.width);
        TokenEmbedding(s, tokens.data(), table.data(), with_positions ? positions.data() : nullptr,
                       out.data());
        for (int64_t r = 0; r < s.rows; ++r) {
          for (int64_t c = 0; c < s.width; ++c) {
            const int64_t position = PositionOf(s, r);
            const float wanted = table[tokens[r] * s.width + c] +
                                 (with_positions ? positions[position * s.width + c] : 0);
            ASSERT_EQ(out[r * s.width + c], wanted);
          }
        }
      });
    }
  }
}

TEST(TokenEmbeddingBackwardTest, AddsInOrderOfRows) {
  for (const TokenEmbeddingShape& s : kShapes) {
    const auto tokens = Tokens(s.rows, s.vocabulary);
    const auto dout = RandomArray(s.rows * s.width, 1);
    const auto before = RandomArray(s.vocabulary * s.width, 2);
    const auto positions_before = RandomArray((s.first_position + s.context) * s.width, 3);
    // The same sums in the same order: the same bits.
    std::vector<float> wanted = before, wanted_positions = positions_before;
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t c = 0; c < s.width; ++c) {
        wanted[tokens[r] * s.width + c] += dout[r * s.width + c];
        wanted_positions[PositionOf(s, r) * s.width + c] += dout[r * s.width + c];
      }
    }
    ForEachInstructionSet([&] {
      ExpectSameBitsOnAnyThreads([&] {
        std::vector<float> table = before, positions = positions_before;
        TokenEmbeddingBackward(s, tokens.data(), dout.data(), table.data(), positions.data());
        EXPECT_TRUE(positions == wanted_positions);
        EXPECT_TRUE(table == wanted);
        TokenEmbeddingBackward(s, tokens.data(), dout.data(), table.data(), nullptr);
        return table;
      });
    });
  }
}

}  // namespace
}  // namespace muster
