// Arrays, the embedding, dropout, activation functions and rotary positions.
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/compute/ops_contract.h"
#include "common/kernels/transformer/activation.h"
#include "common/kernels/transformer/convert.h"
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
    if (n > 4) x.Set(0, -0.0f), x.Set(1, INFINITY), x.Set(2, 3e-8f), x.Set(3, 1e30f);
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
  for (const bool has_positions : {false, true}) {
    const TokenEmbeddingShape shape = {
        .rows = 15, .context = 5, .first_position = 2, .width = 67, .vocabulary = 11};
    const int64_t C = shape.width;
    // Some tokens often, some never.
    std::vector<int32_t> tokens;
    for (int32_t r = 0; r < 15; ++r) tokens.push_back(r * r % 11);
    const HostArray table = Random(DType::kF32, 11 * C, 1);
    const HostArray positions = Random(DType::kF32, 7 * C, 2);
    HostArray out(DType::kF32, 15 * C);
    TokenEmbedding<float>(shape, tokens.data(), table.As<float>(),
                          has_positions ? positions.As<float>() : nullptr, out.As<float>());
    const EmbeddingTokens put = PutTokens(tokens, shape.vocabulary);
    float* const embedded = Floats(15 * C);
    ops().Embed(shape, put, PutFloats(table), has_positions ? PutFloats(positions) : nullptr,
                embedded);
    Expect(embedded, out, {}, "embedded");

    const HostArray dout = Random(DType::kF32, 15 * C, 3);
    HostArray table_gradient = Random(DType::kF32, 11 * C, 4);
    HostArray position_gradient = Random(DType::kF32, 7 * C, 5);
    const EmbeddingGradients gradients = {
        .table = PutFloats(table_gradient),
        .positions = has_positions ? PutFloats(position_gradient) : nullptr};
    TokenEmbeddingBackward(shape, tokens.data(), dout.As<float>(), table_gradient.As<float>(),
                           has_positions ? position_gradient.As<float>() : nullptr);
    ops().EmbedBackward(shape, put, PutFloats(dout), gradients);
    Expect(gradients.table, table_gradient, {.absolute = 1e-6}, "the table's gradient");
    if (has_positions) {
      Expect(gradients.positions, position_gradient, {.absolute = 1e-6}, "the positions'");
    }
  }
}

TEST_P(OpsContractTest, DropoutDropsTheSame) {
  const DropoutMask mask(42, "embedding", (uint64_t{1} << 33) + 77, 0.3f);
  const DropoutShape shape = {
      .examples = 3, .size = 5001, .first_example = (uint64_t{5} << 32) + 9};
  const HostArray x = Random(DType::kF32, 3 * 5001, 1);
  HostArray wanted = x;
  Dropout<float>(mask, shape, x.As<float>(), wanted.As<float>());
  float* const dropped = PutFloats(x);
  ops().Dropout(PutDropout(mask, shape.first_example), shape.examples, shape.size, dropped);
  Expect(dropped, wanted, {}, "dropped");
}

TEST_P(OpsContractTest, Gelu) {
  for (const int64_t n : kSizes) {
    HostArray x = Random(type(), n, 1, -6, 6);
    x.Set(0, -60);
    if (n > 2) x.Set(1, 60), x.Set(2, -0.0f);
    HostArray y(type(), n);
    WithType(type(), [&](auto zero) {
      using T = decltype(zero);
      Gelu(n, x.As<T>(), y.As<T>());
    });
    void* const got = Room(type(), n);
    ops().Gelu(type(), n, Put(x), got);
    Expect(got, y, {.absolute = 4e-6, .relative = 1e-6}, "gelu");
  }
}

TEST_P(OpsContractTest, SwiGlu) {
  for (const auto& [rows, F] : {std::pair{1, 1}, {3, 8}, {5, 130}, {17, 1001}}) {
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
  const RotaryShape shapes[] = {
      {.rows = 1, .context = 1, .heads = 1, .head_dim = 2, .stride = 2},
      {.rows = 34, .context = 17, .first_position = 3, .heads = 3, .head_dim = 16, .stride = 64},
      {.rows = 7, .context = 7, .heads = 2, .head_dim = 10, .stride = 23}};
  for (const RotaryShape& shape : shapes) {
    const int64_t positions = shape.first_position + shape.context;
    HostArray table(DType::kF32, positions * shape.head_dim);
    FillRotaryTable(positions, shape.head_dim, 10000, table.As<float>());
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
    ops().Rotary(shape, type(), put_table, got);
    ops().RotaryBackward(shape, type(), put_table, got_back);
    Expect(got, turned, {.absolute = 1e-6}, "turned");
    Expect(got_back, back, {.absolute = 1e-6}, "turned back");
  }
}

}  // namespace
}  // namespace muster
