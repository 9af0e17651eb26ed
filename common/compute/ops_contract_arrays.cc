// Arrays, the embedding, dropout, activation functions and rotary positions.
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/compute/ops_contract.h"
#include "common/kernels/transformer/activation.h"
#include "common/kernels/transformer/convert.h"
#include "common/kernels/transformer/documents_for_testing.h"
#include "common/kernels/transformer/dropout.h"

namespace muster {
namespace {

// Whole vectors, and tails.
constexpr int64_t kSizes[] = {1, 7, 8, 130, 2049, 40000};

TEST_P(OpsContractTest, TheStreamKeepsItsFirstFailure) {
  ComputeStream& stream = ops().stream();
  stream.Fail(absl::OkStatus());
  EXPECT_TRUE(stream.status().ok());
  float value = 3;
  float* const x = static_cast<float*>(Put(Filled(DType::kF32, 1, 5)));
  stream.Fail(absl::InternalError("first"));
  stream.Fail(absl::AbortedError("second"));
  EXPECT_EQ(stream.status().message(), "first");
  EXPECT_EQ(stream.Synchronize().message(), "first");
  stream.CopyOut(&value, x, sizeof(float));
  EXPECT_EQ(value, 3);
}

TEST_P(OpsContractTest, Zero) {
  float* const x = PutFloats(Filled(DType::kF32, 131, -2));
  ops().Zero(130, x);
  HostArray wanted = Filled(DType::kF32, 131, 0);
  wanted.Set(130, -2);
  Expect(x, wanted, {}, "zeros");
}

TEST_P(OpsContractTest, ConvertsBothWays) {
  if (type() == DType::kF32) GTEST_SKIP() << "between f32 and types of 16 bits";
  for (const int64_t n : kSizes) {
    HostArray x = Random(DType::kF32, n, 1, -70000, 70000);
    if (n > 6) {
      const float odd[] = {-0.0f, INFINITY, -INFINITY, NAN, 3e-8f, 1e30f, 65520};
      for (int64_t i = 0; i < 7; ++i) x.Set(i, odd[i]);
    }
    HostArray rounded(type(), n), wide(DType::kF32, n);
    WithType(type(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (!std::is_same_v<T, float>) {
        Convert(n, x.As<float>(), rounded.As<T>());
        Convert(n, rounded.As<T>(), wide.As<float>());
      }
    });
    void* const to = Room(type(), n);
    float* const back = Floats(n);
    ops().Convert(n, DType::kF32, Put(x), type(), to);
    ops().Convert(n, type(), to, DType::kF32, back);
    Expect(to, rounded, {}, "rounded");
    Expect(back, wide, {}, "widened");
  }
}

TEST_P(OpsContractTest, Embedding) {
  const std::vector<int32_t> documents = DocumentPositions(2, 100, 1);
  const std::vector<int32_t> other = DocumentPositions(2, 150, 2);
  const TokenEmbeddingShape shapes[] = {
      {.rows = 1, .context = 1, .width = 1, .vocabulary = 1},
      {.rows = 34, .context = 17, .first_position = 2, .width = 40, .vocabulary = 11},
      {.rows = 130, .context = 130, .width = 67, .vocabulary = 500},
      {.rows = 600, .context = 200, .width = 264, .vocabulary = 3},
      // A rank's rows of a table: most tokens have none there.
      {.rows = 130, .context = 65, .width = 40, .vocabulary = 7, .first_token = 5, .tokens = 30},
      // Several documents in a sequence, of which a rank has no rows of the table.
      {.rows = 200,
       .context = 100,
       .width = 40,
       .vocabulary = 7,
       .first_token = 5,
       .tokens = 30,
       .token_positions = documents.data()},
      {.rows = 300, .context = 150, .width = 33, .vocabulary = 5, .token_positions = other.data()}};
  for (const bool has_positions : {false, true}) {
    for (const TokenEmbeddingShape& shape : shapes) {
      const int64_t out_size = shape.rows * shape.width;
      const int64_t table_size = shape.vocabulary * shape.width;
      const int64_t positions_size = (shape.first_position + shape.context) * shape.width;
      const int64_t all_tokens = shape.tokens > 0 ? shape.tokens : shape.vocabulary;
      // Some tokens often, some never.
      std::vector<int32_t> tokens(shape.rows);
      for (int64_t r = 0; r < shape.rows; ++r) {
        tokens[r] = static_cast<int32_t>((r * r * 7 + r / 3) % all_tokens);
      }
      const HostArray table = Random(DType::kF32, table_size, 1);
      const HostArray positions = Random(DType::kF32, positions_size, 2);
      HostArray out(DType::kF32, out_size);
      TokenEmbedding(shape, tokens.data(), table.As<float>(),
                     has_positions ? positions.As<float>() : nullptr, out.As<float>());
      EmbeddingTokens put = PutTokens(tokens, all_tokens);
      TokenEmbeddingShape put_shape = shape;
      if (shape.token_positions != nullptr) {
        const std::vector<int32_t> of_rows(shape.token_positions,
                                           shape.token_positions + shape.rows);
        const EmbeddingTokens put_positions = PutTokens(of_rows, shape.context);
        put_shape.token_positions = put_positions.tokens;
        put.position_order = put_positions.order;
      }
      float* const embedded = Floats(out_size);
      ops().Embed(put_shape, put, PutFloats(table), has_positions ? PutFloats(positions) : nullptr,
                  embedded);
      Expect(embedded, out, {}, "embedded");

      const HostArray dout = Random(DType::kF32, out_size, 3);
      HostArray table_gradient = Random(DType::kF32, table_size, 4);
      HostArray position_gradient = Random(DType::kF32, positions_size, 5);
      const EmbeddingGradients gradients = {
          .table = PutFloats(table_gradient),
          .positions = has_positions ? PutFloats(position_gradient) : nullptr};
      TokenEmbeddingBackward(shape, tokens.data(), dout.As<float>(), table_gradient.As<float>(),
                             has_positions ? position_gradient.As<float>() : nullptr);
      ops().EmbedBackward(put_shape, put, PutFloats(dout), gradients);
      Expect(gradients.table, table_gradient, {.absolute = 1e-4}, "the table's gradient");
      if (has_positions) {
        Expect(gradients.positions, position_gradient, {.absolute = 1e-5}, "the positions'");
      }
    }
  }
}

TEST_P(OpsContractTest, DropoutDropsTheSame) {
  const DropoutMask mask(42, "embedding", (uint64_t{1} << 33) + 77, 0.3f);
  for (const auto& [examples, size] : {std::pair{1, 3}, {3, 64}, {2, 1000}, {3, 5001}}) {
    // Whole examples, and elements that begin and end within one.
    for (const int first : {0, size / 2, 8}) {
      if (first >= size) continue;
      const DropoutShape shape = {.elements = examples * size - first - first / 2,
                                  .size = size,
                                  .first_example = (uint64_t{5} << 32) + 9,
                                  .first_element = first};
      const HostArray x = Random(DType::kF32, shape.elements, 1);
      HostArray wanted = x;
      Dropout(mask, shape, x.As<float>(), wanted.As<float>());
      float* const dropped = PutFloats(x);
      ops().Dropout(PutDropout(mask, shape), shape.elements, size, dropped);
      Expect(dropped, wanted, {}, "dropped");
    }
  }
}

TEST_P(OpsContractTest, GeluTakesArraysThatBeginAnywhere) {
  for (const int64_t n : kSizes) {
    for (const int64_t first : {0, 1}) {
      HostArray x = Random(type(), first + n, 1, -6, 6);
      x.Set(first, -60);
      if (n > 2) x.Set(first + 1, 60), x.Set(first + 2, -0.0f);
      HostArray y(type(), first + n);
      WithType(type(), [&, first = first](auto zero) {
        using T = decltype(zero);
        Gelu(n, x.As<T>() + first, y.As<T>() + first);
      });
      const size_t offset = first * SizeOf(type());
      auto* const in = static_cast<char*>(Put(x));
      auto* const got = static_cast<char*>(Room(type(), first + n));
      ops().Gelu(type(), n, in + offset, got + offset);
      Expect(got, y, {.absolute = 4e-6, .relative = 1e-6}, "gelu");
    }
  }
}

TEST_P(OpsContractTest, SwiGlu) {
  for (const auto& [rows, F] : {std::pair{1, 1}, {3, 8}, {5, 130}, {17, 264}, {17, 1001}}) {
    HostArray gate_up = Random(type(), rows * 2 * F, 1, -5, 5);
    gate_up.Set(0, -200);
    const HostArray dy = Random(type(), rows * F, 2);
    HostArray y(type(), rows * F), d_gate_up(type(), rows * 2 * F);
    WithType(type(), [&, rows = rows, F = F](auto zero) {
      using T = decltype(zero);
      SwiGlu(rows, F, gate_up.As<T>(), y.As<T>());
      SwiGluBackward(rows, F, gate_up.As<T>(), dy.As<T>(), d_gate_up.As<T>());
    });
    void* const in = Put(gate_up);
    void* const out = Room(type(), rows * F);
    void* const gradient = Room(type(), rows * 2 * F);
    ops().SwiGlu(type(), rows, F, in, out);
    ops().SwiGluBackward(type(), rows, F, in, Put(dy), gradient);
    Expect(out, y, {.absolute = 4e-6, .relative = 1e-6}, "swiglu");
    Expect(gradient, d_gate_up, {.absolute = 1e-5, .relative = 1e-6}, "its gradient");
  }
}

TEST_P(OpsContractTest, RotaryLeavesWhatLiesBetweenRows) {
  const std::vector<int32_t> documents = DocumentPositions(2, 100, 1);
  const RotaryShape shapes[] = {
      {.rows = 1, .context = 1, .heads = 1, .head_dim = 2, .stride = 2},
      {.rows = 34, .context = 17, .first_position = 3, .heads = 3, .head_dim = 16, .stride = 64},
      {.rows = 10, .context = 5, .heads = 2, .head_dim = 64, .stride = 160},
      {.rows = 7, .context = 7, .heads = 2, .head_dim = 10, .stride = 23},
      {.rows = 200,
       .context = 100,
       .heads = 2,
       .head_dim = 16,
       .stride = 48,
       .token_positions = documents.data()}};
  for (const RotaryShape& shape : shapes) {
    const int64_t positions = shape.first_position + shape.context;
    HostArray table(DType::kF32, positions * shape.head_dim);
    FillRotaryTable(positions, shape.head_dim, {}, table.As<float>());
    const HostArray x = Random(type(), shape.rows * shape.stride, 1);
    HostArray turned = x, back = x;
    WithType(type(), [&](auto zero) {
      using T = decltype(zero);
      Rotary(shape, table.As<float>(), turned.As<T>());
      RotaryBackward(shape, table.As<float>(), back.As<T>());
    });
    float* const put_table = PutFloats(table);
    void* const got = Put(x);
    void* const got_back = Put(x);
    RotaryShape put_shape = shape;
    if (shape.token_positions != nullptr) put_shape.token_positions = PutValues(documents);
    ops().Rotary(put_shape, type(), put_table, got);
    ops().RotaryBackward(put_shape, type(), put_table, got_back);
    Expect(got, turned, {.absolute = 1e-6}, "turned");
    Expect(got_back, back, {.absolute = 1e-6}, "turned back");
  }
}

}  // namespace
}  // namespace muster
