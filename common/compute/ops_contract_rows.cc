// Norms, attention and the loss.
#include <tuple>
#include <vector>

#include "common/compute/ops_contract.h"
#include "common/kernels/transformer/cross_entropy_rows.h"

namespace muster {
namespace {

struct NormCase {
  NormKind kind;
  // examples · length rows.
  int64_t examples, length, width;
  bool branch = true;
  bool bias = true;
  float dropout = 0;
};

constexpr NormCase kNorms[] = {{NormKind::kLayerNorm, 2, 17, 96, true, true, 0.2f},
                               {NormKind::kRmsNorm, 3, 5, 131, true, false, 0.5f},
                               {NormKind::kLayerNorm, 1, 9, 257, false, true},
                               {NormKind::kRmsNorm, 2, 4, 33, false, false},
                               {NormKind::kLayerNorm, 1, 700, 8, true, true}};

// The arrays of one case, on the host.
struct NormArrays {
  NormArrays(const NormCase& c, DType type)
      : shape{.kind = c.kind, .rows = c.examples * c.length, .width = c.width},
        mask(7, "branch", 12, c.dropout),
        dropout{.examples = c.examples, .size = c.length * c.width, .first_example = 1000},
        out(type, shape.rows * c.width),
        mean(DType::kF32, shape.rows),
        rstd(DType::kF32, shape.rows) {}

  NormShape shape;
  DropoutMask mask;
  DropoutShape dropout;
  HostArray out;
  HostArray mean;
  HostArray rstd;
};

template <typename T>
void ForwardReference(const NormCase& c, const HostArray& branch, const HostArray& gain,
                      const HostArray& bias, HostArray& sum, NormArrays& arrays) {
  NormInputs<T> in;
  in.x = sum.As<float>();
  if (c.branch) in.branch = branch.As<T>();
  if (c.dropout > 0) in.mask = &arrays.mask;
  in.dropout = arrays.dropout;
  in.gain = gain.As<float>();
  if (c.bias) in.bias = bias.As<float>();
  Norm<T>(arrays.shape, in,
          {.sum = c.branch ? sum.As<float>() : nullptr,
           .out = arrays.out.As<T>(),
           .mean = arrays.mean.As<float>(),
           .rstd = arrays.rstd.As<float>()});
}

TEST_P(OpsContractTest, Norm) {
  for (const NormCase& c : kNorms) {
    NormArrays arrays(c, type());
    const int64_t rows = arrays.shape.rows, n = rows * c.width;
    SCOPED_TRACE(testing::Message() << rows << " x " << c.width << " dropout " << c.dropout);
    const HostArray branch = Random(type(), n, 2);
    const HostArray gain = Random(DType::kF32, c.width, 3, 0.5f, 2);
    const HostArray bias = Random(DType::kF32, c.width, 4);
    HostArray sum = Random(DType::kF32, n, 1, -2, 3);
    // The sum is made in the place of x, the norm in that of the branch.
    float* const got_sum = PutFloats(sum);
    void* const got_out = Put(branch);
    float* const got_mean = Floats(rows);
    float* const got_rstd = Floats(rows);
    WithType(type(), [&](auto zero) {
      ForwardReference<decltype(zero)>(c, branch, gain, bias, sum, arrays);
    });
    ops().Norm(
        arrays.shape, type(),
        {.x = got_sum,
         .branch = c.branch ? got_out : nullptr,
         .dropout = c.dropout > 0 ? PutDropout(arrays.mask, 1000) : OpDropout(),
         .rows_per_example = c.length,
         .gain = PutFloats(gain),
         .bias = c.bias ? PutFloats(bias) : nullptr},
        {.sum = c.branch ? got_sum : nullptr, .out = got_out, .mean = got_mean, .rstd = got_rstd});
    Expect(got_sum, sum, {.absolute = 1e-6}, "sum");
    Expect(got_out, arrays.out, {.absolute = 1e-5, .relative = 1e-5}, "out");
    Expect(got_rstd, arrays.rstd, {.relative = 1e-5}, "rstd");
    if (c.kind == NormKind::kLayerNorm) {
      Expect(got_mean, arrays.mean, {.absolute = 1e-6}, "mean");
    }
  }
}

TEST_P(OpsContractTest, NormBackward) {
  for (const NormCase& c : kNorms) {
    NormArrays arrays(c, type());
    const int64_t rows = arrays.shape.rows, n = rows * c.width;
    SCOPED_TRACE(testing::Message() << rows << " x " << c.width << " dropout " << c.dropout);
    const HostArray branch = Random(type(), n, 2);
    const HostArray gain = Random(DType::kF32, c.width, 3, 0.5f, 2);
    const HostArray bias = Random(DType::kF32, c.width, 4);
    HostArray sum = Random(DType::kF32, n, 1, -2, 3);
    const HostArray dout = Random(type(), n, 5), dsum = Random(DType::kF32, n, 6);
    WithType(type(), [&](auto zero) {
      ForwardReference<decltype(zero)>(c, branch, gain, bias, sum, arrays);
    });
    const OpDropout dropout = c.dropout > 0 ? PutDropout(arrays.mask, 1000) : OpDropout();
    for (const bool has_dsum : {false, true}) {
      // The gradient of the stream is made in its own place, and that of the branch.
      HostArray dx = dsum, dbranch = dout;
      HostArray dgain = Filled(DType::kF32, c.width, 0.5f);
      HostArray dbias = Filled(DType::kF32, c.width, -1);
      float* const got_dx = PutFloats(dx);
      void* const got_dbranch = Put(dbranch);
      float* const got_gain = PutFloats(dgain);
      float* const got_bias = PutFloats(dbias);
      WithType(type(), [&](auto zero) {
        using T = decltype(zero);
        NormBackward<T>(arrays.shape,
                        {.sum = sum.As<float>(),
                         .gain = gain.As<float>(),
                         .mean = arrays.mean.As<float>(),
                         .rstd = arrays.rstd.As<float>(),
                         .dout = dbranch.As<T>(),
                         .dsum = has_dsum ? dx.As<float>() : nullptr,
                         .mask = c.dropout > 0 ? &arrays.mask : nullptr,
                         .dropout = arrays.dropout},
                        {.dx = dx.As<float>(),
                         .dbranch = c.branch ? dbranch.As<T>() : nullptr,
                         .gain = dgain.As<float>(),
                         .bias = c.bias ? dbias.As<float>() : nullptr});
      });
      ops().NormBackward(arrays.shape, type(),
                         {.sum = PutFloats(sum),
                          .gain = PutFloats(gain),
                          .mean = PutFloats(arrays.mean),
                          .rstd = PutFloats(arrays.rstd),
                          .dout = got_dbranch,
                          .dsum = has_dsum ? got_dx : nullptr,
                          .dropout = dropout,
                          .rows_per_example = c.length},
                         {.dx = got_dx,
                          .dbranch = c.branch ? got_dbranch : nullptr,
                          .gain = got_gain,
                          .bias = c.bias ? got_bias : nullptr});
      const double many = 1e-5 + 1e-6 * static_cast<double>(rows);
      Expect(got_dx, dx, {.absolute = 1e-5, .relative = 1e-5}, "dx");
      Expect(got_dbranch, dbranch, {.absolute = 1e-5, .relative = 1e-5}, "dbranch");
      Expect(got_gain, dgain, {.absolute = many, .relative = 1e-5}, "gain");
      Expect(got_bias, dbias, {.absolute = many, .relative = 1e-5}, "bias");
    }
  }
}

struct AttentionCase {
  int64_t B, T, H, KV, D;
  float dropout = 0;
};

TEST_P(OpsContractTest, Attention) {
  for (const AttentionCase& c : {AttentionCase{1, 1, 1, 1, 1},
                                 {2, 19, 4, 2, 16, 0.3f},
                                 {1, 70, 2, 2, 12},
                                 {2, 33, 3, 1, 64, 0.1f}}) {
    SCOPED_TRACE(testing::Message()
                 << "T " << c.T << " H " << c.H << " D " << c.D << " dropout " << c.dropout);
    const AttentionShape shape = {.B = c.B, .T = c.T, .H = c.H, .KV = c.KV, .D = c.D};
    const int64_t rows = c.B * c.T, in = rows * (c.H + 2 * c.KV) * c.D, out = rows * c.H * c.D;
    const HostArray qkv = Random(type(), in, 1, -2, 2), dout = Random(type(), out, 2);
    HostArray wanted(type(), out), dqkv(type(), in), logsumexp(DType::kF32, rows * c.H);
    const DropoutMask mask(5, "probabilities", 7, c.dropout);
    AttentionDropout dropout;
    OpDropout op_dropout;
    if (c.dropout > 0) {
      dropout = {.mask = &mask, .first_example = 2};
      op_dropout = PutDropout(mask, 2);
    }
    WithType(type(), [&](auto zero) {
      using T = decltype(zero);
      Attention<T>(shape, qkv.As<T>(), wanted.As<T>(), logsumexp.As<float>(), dropout);
      AttentionBackward<T>(shape, qkv.As<T>(), wanted.As<T>(), logsumexp.As<float>(), dout.As<T>(),
                           dqkv.As<T>(), dropout);
    });
    void* const put_qkv = Put(qkv);
    void* const got = Room(type(), out);
    void* const without = Room(type(), out);
    float* const got_logsumexp = Floats(rows * c.H);
    AttentionArrays arrays = {
        .qkv = put_qkv, .out = got, .logsumexp = got_logsumexp, .dropout = op_dropout};
    ops().Attention(shape, type(), arrays);
    arrays.out = without;
    arrays.logsumexp = nullptr;
    ops().Attention(shape, type(), arrays);
    // Probabilities may be rounded before the second product.
    const double bound = 3e-6 + 3 * RoundingOf(type());
    ExpectNormwise(got, wanted, bound, "out");
    ExpectNormwise(without, wanted, bound, "out without logsumexp");
    Expect(got_logsumexp, logsumexp, {.absolute = 2e-5, .relative = 2e-6}, "logsumexp");

    void* const got_dqkv = Room(type(), in);
    ops().AttentionBackward(shape, type(),
                            {.qkv = put_qkv,
                             .out = got,
                             .logsumexp = got_logsumexp,
                             .dropout = op_dropout,
                             .dout = Put(dout),
                             .dqkv = got_dqkv});
    ExpectNormwise(got_dqkv, dqkv, 6e-6 + 6 * RoundingOf(type()), "dqkv");
  }
}

// With padding behind the tokens, rows without a label, and two logits that are as large.
TEST_P(OpsContractTest, CrossEntropy) {
  for (const auto& [rows, V, tokens] : {std::tuple{1, 1, 1}, {5, 37, 33}, {6, 264, 257}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << V << " of " << tokens);
    const int64_t stride = traits().LogitsStride(V);
    HostArray logits = Random(DType::kF32, rows * V, 1, -8, 8);
    std::vector<int32_t> labels(rows);
    for (int r = 0; r < rows; ++r) labels[r] = r * 37 % tokens;
    if (rows > 3) {
      labels[2] = -1;
      labels[3] = 5;
      logits.Set(3 * V + 5, 10);
      logits.Set(3 * V + 7, 10);
    }
    const float scale = 1024;
    for (const bool has_gradient : {true, false}) {
      for (const bool has_scale : {true, false}) {
        HostArray gradient(type(), rows * V);
        HeadSums sums;
        WithType(type(), [&, rows = rows, V = V, tokens = tokens](auto zero) {
          using T = decltype(zero);
          sums = SoftmaxCrossEntropyRows<T>({.rows = rows, .vocabulary = tokens, .columns = V},
                                            logits.As<float>(), labels.data(),
                                            has_scale ? scale : 1, gradient.As<T>(), V);
        });
        // Rows with the stride that these ops want.
        HostArray strided(DType::kF32, rows * stride);
        for (int64_t i = 0; i < logits.size(); ++i) {
          strided.Set(i / V * stride + i % V, logits.Get(i));
        }
        void* const put = Put(strided);
        auto* const got_sums = PutValues(std::vector<DeviceHeadSums>{{10, 20, 30}});
        ops().CrossEntropy(
            {.rows = rows, .vocabulary = V, .tokens = tokens, .logits_stride = stride}, type(),
            {.logits = static_cast<float*>(put),
             .labels = PutValues(labels),
             .gradient = has_gradient ? put : nullptr,
             .gradient_scale = has_scale ? PutValues(std::vector<float>{scale}) : nullptr,
             .sums = has_gradient ? got_sums : nullptr});
        DeviceHeadSums got;
        ReadBytes(got_sums, &got, sizeof(got));
        const double counted = has_gradient ? 1 : 0;
        const double loss = 10 + counted * sums.loss;
        if (traits().logits_alignment == 1) EXPECT_EQ(got.loss, loss);
        EXPECT_NEAR(got.loss, loss, 1e-5 * rows);
        EXPECT_EQ(got.tokens, 20 + counted * static_cast<double>(sums.tokens));
        EXPECT_EQ(got.correct, 30 + counted * static_cast<double>(sums.correct));
        if (!has_gradient) {
          Expect(put, strided, {}, "logits");
          continue;
        }
        const auto bytes_of_row = stride * static_cast<int64_t>(sizeof(float));
        for (int64_t r = 0; r < rows; ++r) {
          HostArray row(type(), V);
          for (int64_t i = 0; i < V; ++i) row.Set(i, gradient.Get(r * V + i));
          // Small numbers of f16 have fewer digits.
          Expect(static_cast<char*>(put) + r * bytes_of_row, row,
                 {.absolute = 1e-6 * (has_scale ? scale : 1), .relative = 4e-6}, "gradient");
        }
      }
    }
  }
}

}  // namespace
}  // namespace muster
