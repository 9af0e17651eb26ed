// Norms and the loss.
#include <cmath>
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
  // The row of the first example with which the arrays begin.
  int64_t first_row = 0;
};

constexpr NormCase kNorms[] = {{NormKind::kLayerNorm, 1, 1, 1},
                               {NormKind::kLayerNorm, 2, 17, 96, true, true, 0.2f},
                               {NormKind::kRmsNorm, 3, 5, 131, true, false, 0.5f},
                               {NormKind::kLayerNorm, 1, 9, 257, false, true},
                               {NormKind::kLayerNorm, 1, 9, 768, false, true},
                               {NormKind::kRmsNorm, 1, 3, 1288, true, false},
                               {NormKind::kRmsNorm, 2, 4, 33, false, false},
                               // Backward has forward's dropout also where it makes no branch.
                               {NormKind::kLayerNorm, 2, 5, 48, false, true, 0.3f},
                               {NormKind::kLayerNorm, 2, 17, 96, true, true, 0.2f, 5},
                               {NormKind::kRmsNorm, 1, 9, 131, true, false, 0.2f, 8},
                               // More rows than a device's runs of backward.
                               {NormKind::kLayerNorm, 3, 700, 8, true, true, 0.1f}};

// A row of one number is divided by almost nothing.
double ToleranceOf(const NormCase& c) { return c.width == 1 ? 1e-3 : 1e-5; }

// The arrays of one case, on the host.
struct NormArrays {
  NormArrays(const NormCase& c, DType type)
      : shape{.kind = c.kind, .rows = c.examples * c.length, .width = c.width},
        mask(7, "branch", 12, c.dropout),
        dropout{.elements = shape.rows * c.width,
                .size = c.length * c.width,
                .first_example = 1000,
                .first_element = c.first_row * c.width},
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
  if (c.branch && c.dropout > 0) in.mask = &arrays.mask;
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
         .dropout = c.dropout > 0 ? PutDropout(arrays.mask, arrays.dropout) : OpDropout(),
         .rows_per_example = c.length,
         .gain = PutFloats(gain),
         .bias = c.bias ? PutFloats(bias) : nullptr},
        {.sum = c.branch ? got_sum : nullptr, .out = got_out, .mean = got_mean, .rstd = got_rstd});
    Expect(got_sum, sum, {.absolute = 1e-6}, "sum");
    Expect(got_out, arrays.out, {.absolute = ToleranceOf(c), .relative = 1e-5}, "out");
    Expect(got_rstd, arrays.rstd, {.relative = ToleranceOf(c)}, "rstd");
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
    const OpDropout dropout = c.dropout > 0 ? PutDropout(arrays.mask, arrays.dropout) : OpDropout();
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
      const double close = ToleranceOf(c), many = close + 1e-6 * static_cast<double>(rows);
      Expect(got_dx, dx, {.absolute = close, .relative = 1e-5}, "dx");
      Expect(got_dbranch, dbranch, {.absolute = close, .relative = 1e-5}, "dbranch");
      Expect(got_gain, dgain, {.absolute = many, .relative = 1e-5}, "gain");
      Expect(got_bias, dbias, {.absolute = many, .relative = 1e-5}, "bias");
    }
  }
}

// Heads of every size, in rows with others behind them; of one that is all of them; more rows than
// a device's runs of backward.
constexpr HeadNormShape kHeadNorms[] = {
    {.rows = 1, .groups = 1, .width = 1, .stride = 1, .kept_stride = 1, .epsilon = 1e-2f},
    {.rows = 5, .groups = 3, .width = 10, .stride = 50, .kept_stride = 41},
    {.rows = 33, .groups = 4, .width = 128, .stride = 768, .kept_stride = 640, .epsilon = 1e-6f},
    {.rows = 9, .groups = 5, .width = 64, .stride = 331, .kept_stride = 320},
    {.rows = 9, .groups = 1, .width = 1288, .stride = 2000, .kept_stride = 1296},
    {.rows = 6, .groups = 1, .width = 771, .stride = 900, .kept_stride = 771},
    {.rows = 2100, .groups = 2, .width = 16, .stride = 48, .kept_stride = 32}};

TEST_P(OpsContractTest, HeadNorm) {
  for (const HeadNormShape& shape : kHeadNorms) {
    SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.groups << " x " << shape.width);
    const HostArray gain = Random(DType::kF32, shape.width, 3, 0.5f, 2);
    const HostArray x = Random(type(), shape.rows * shape.stride, 1, -2, 3);
    for (const bool keeps : {true, false}) {
      HostArray y = x;
      HostArray kept(type(), shape.rows * shape.kept_stride);
      void* const got = Put(x);
      void* const got_kept = Put(kept);
      WithType(type(), [&](auto zero) {
        using T = decltype(zero);
        HeadNorm<T>(shape, gain.As<float>(), y.As<T>(), keeps ? kept.As<T>() : nullptr);
      });
      ops().HeadNorm(shape, type(),
                     {.gain = PutFloats(gain), .x = got, .kept = keeps ? got_kept : nullptr});
      Expect(got, y, {.absolute = 1e-5, .relative = 1e-5}, "y");
      Expect(got_kept, kept, {}, "kept");
    }
  }
}

TEST_P(OpsContractTest, HeadNormBackward) {
  for (const HeadNormShape& shape : kHeadNorms) {
    SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.groups << " x " << shape.width);
    const HostArray gain = Random(DType::kF32, shape.width, 3, 0.5f, 2);
    const HostArray kept = Random(type(), shape.rows * shape.kept_stride, 1, -2, 3);
    HostArray dx = Random(type(), shape.rows * shape.stride, 2);
    HostArray dgain = Filled(DType::kF32, shape.width, 0.5f);
    void* const got = Put(dx);
    float* const got_gain = PutFloats(dgain);
    WithType(type(), [&](auto zero) {
      using T = decltype(zero);
      HeadNormBackward<T>(shape, kept.As<T>(), gain.As<float>(), dx.As<T>(), dgain.As<float>());
    });
    ops().HeadNormBackward(
        shape, type(),
        {.kept = Put(kept), .gain = PutFloats(gain), .dx = got, .gain_gradient = got_gain});
    const double many = 1e-5 + 1e-6 * static_cast<double>(shape.rows * shape.groups);
    Expect(got, dx, {.absolute = shape.width == 1 ? 1e-3 : 1e-5, .relative = 1e-5}, "dx");
    Expect(got_gain, dgain, {.absolute = many, .relative = 1e-5}, "gain");
  }
}

struct LossCase {
  int64_t rows, V, tokens;
  enum class Odd {
    kNone,
    // The first row is of minus infinities, and of 2 in a few places.
    kInfinities,
    // The first row has a NaN.
    kNan,
  };
  Odd odd = Odd::kNone;
  int64_t nan = 0;
  float smoothing = 0;
  float z = 0;

  LossTerms terms() const { return LossTerms::Of(smoothing, z, tokens); }
};

constexpr LossCase kLosses[] = {
    {1, 1, 1},
    {5, 7, 7},
    {5, 37, 33},
    {6, 256, 256},
    {6, 264, 257},
    {7, 5003, 5003},
    {5, 9000, 8970},
    {.rows = 5, .V = 37, .tokens = 33, .smoothing = 0.25f},
    {.rows = 6, .V = 264, .tokens = 257, .z = 0.125f},
    {.rows = 5, .V = 5008, .tokens = 5003, .smoothing = 0.1f, .z = 0.01f},
    {1, 1000, 1000, LossCase::Odd::kInfinities},
    {2, 1000, 1000, LossCase::Odd::kNan, 0},
    {1, 1000, 1000, LossCase::Odd::kNan, 1},
    {1, 1000, 1000, LossCase::Odd::kNan, 700}};

// Fills logits and labels with padding behind the tokens, rows without a label, a last token that
// is right, and two logits that are as large, of which the first counts.
void FillLossCase(const LossCase& c, HostArray& logits, std::vector<int32_t>& labels) {
  for (int64_t r = 0; r < c.rows; ++r) {
    labels.push_back(static_cast<int32_t>(r * 37 % c.tokens));
    // Padding must not count, whatever it holds.
    for (int64_t i = c.tokens; i < c.V; ++i) logits.Set(r * c.V + i, 100);
  }
  if (c.rows > 4) {
    labels[2] = -1;
    labels[3] = static_cast<int32_t>(c.tokens - 1);
    logits.Set(3 * c.V + labels[3], 9);
    labels[4] = 5;
    logits.Set(4 * c.V + 2, 10);
    logits.Set(4 * c.V + 5, 10);
  }
  if (c.odd == LossCase::Odd::kNan) logits.Set(c.nan, NAN);
  if (c.odd == LossCase::Odd::kInfinities) {
    for (int64_t i = 0; i < c.V; ++i) {
      logits.Set(i, i == 403 || i == 405 || i == 999 ? 2 : -INFINITY);
    }
    labels[0] = 403;
  }
}

TEST_P(OpsContractTest, CrossEntropy) {
  for (const LossCase& c : kLosses) {
    const int64_t rows = c.rows, V = c.V, tokens = c.tokens;
    SCOPED_TRACE(testing::Message() << rows << " x " << V << " of " << tokens << ", NaN at "
                                    << c.nan << ", smoothing " << c.smoothing << ", z " << c.z);
    const int64_t stride = traits().LogitsStride(V);
    HostArray logits = Random(DType::kF32, rows * V, 1, -8, 8);
    std::vector<int32_t> labels;
    FillLossCase(c, logits, labels);
    // Rows with the stride that these ops want.
    HostArray strided(DType::kF32, rows * stride);
    for (int64_t i = 0; i < logits.size(); ++i) strided.Set(i / V * stride + i % V, logits.Get(i));
    const float scale = 1024;
    struct Results {
      bool gradient, sums, has_scale;
    };
    for (const Results& made : {Results{true, true, true},
                                {true, true, false},
                                {true, false, true},
                                {false, true, false}}) {
      HostArray gradient(type(), rows * V);
      HeadSums sums;
      WithType(type(), [&](auto zero) {
        using T = decltype(zero);
        sums = SoftmaxCrossEntropyRows<T>(
            {.rows = rows, .vocabulary = tokens, .columns = V, .terms = c.terms()},
            logits.As<float>(), labels.data(), made.has_scale ? scale : 1, gradient.As<T>(), V);
      });
      void* const put = Put(strided);
      auto* const got_sums = PutValues(std::vector<HeadSums>{{10, 20, 30}});
      ops().CrossEntropy(
          {.rows = rows,
           .vocabulary = V,
           .tokens = tokens,
           .logits_stride = stride,
           .terms = c.terms()},
          type(),
          {.logits = static_cast<float*>(put),
           .labels = PutValues(labels),
           .gradient = made.gradient ? put : nullptr,
           .gradient_scale = made.has_scale ? PutValues(std::vector<float>{scale}) : nullptr,
           .sums = made.sums ? got_sums : nullptr});
      HeadSums got;
      ReadBytes(got_sums, &got, sizeof(got));
      const double counted = made.sums ? 1 : 0;
      const double loss = made.sums ? 10 + sums.loss : 10;
      if (std::isnan(loss)) {
        EXPECT_TRUE(std::isnan(got.loss));
      } else {
        if (traits().logits_alignment == 1) EXPECT_EQ(got.loss, loss);
        EXPECT_NEAR(got.loss, loss, 1e-5 * static_cast<double>(rows));
      }
      EXPECT_EQ(got.tokens, 20 + counted * sums.tokens);
      EXPECT_EQ(got.correct, 30 + counted * sums.correct);
      if (!made.gradient) {
        Expect(put, strided, {}, "logits");
        continue;
      }
      const auto bytes_of_row = stride * static_cast<int64_t>(sizeof(float));
      for (int64_t r = 0; r < rows; ++r) {
        HostArray row(type(), V);
        for (int64_t i = 0; i < V; ++i) row.Set(i, gradient.Get(r * V + i));
        // Small numbers of f16 have fewer digits.
        Expect(static_cast<char*>(put) + r * bytes_of_row, row,
               {.absolute = 1e-6 * (made.has_scale ? scale : 1), .relative = 4e-6}, "gradient");
      }
    }
  }
}

// The columns that one of several ranks has.
struct ColumnShare {
  VocabularyShareShape shape;
  HostArray logits;
  std::vector<SoftmaxPart> parts;
};

VocabularyShape KernelShape(const VocabularyShareShape& shape) {
  return {{.rows = shape.columns.rows,
           .vocabulary = shape.columns.tokens,
           .columns = shape.columns.vocabulary,
           .terms = shape.columns.terms},
          shape.first_token};
}

// Divides a case's columns into equal shares, with their parts. Padding fills the last.
std::vector<ColumnShare> SharesOf(const LossCase& c, const HostArray& logits,
                                  const std::vector<int32_t>& labels, const OpsTraits& traits,
                                  int ranks) {
  std::vector<ColumnShare> shares;
  const int64_t width = (c.V + ranks - 1) / ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t begin = rank * width;
    ColumnShare& share = shares.emplace_back(
        ColumnShare{.shape = {.columns = {.rows = c.rows,
                                          .vocabulary = width,
                                          .tokens = std::clamp<int64_t>(c.tokens - begin, 0, width),
                                          .logits_stride = traits.LogitsStride(width),
                                          .terms = c.terms()},
                              .first_token = static_cast<int32_t>(begin)},
                    .logits = HostArray(DType::kF32, c.rows * width),
                    .parts = std::vector<SoftmaxPart>(c.rows)});
    for (int64_t i = 0; i < share.logits.size(); ++i) {
      const int64_t column = begin + i % width;
      if (column < c.V) share.logits.Set(i, logits.Get(i / width * c.V + column));
    }
    SoftmaxParts(KernelShape(share.shape), share.logits.As<float>(), labels.data(),
                 share.parts.data());
  }
  return shares;
}

TEST_P(OpsContractTest, CrossEntropyOfColumnsThatRanksDivide) {
  constexpr int kRanks = 3;
  constexpr float kScale = 1024;
  for (const LossCase& c : kLosses) {
    SCOPED_TRACE(testing::Message()
                 << c.rows << " x " << c.V << " of " << c.tokens << ", NaN at " << c.nan);
    HostArray logits = Random(DType::kF32, c.rows * c.V, 1, -8, 8);
    std::vector<int32_t> labels;
    FillLossCase(c, logits, labels);
    const std::vector<ColumnShare> shares = SharesOf(c, logits, labels, traits(), kRanks);
    std::vector<SoftmaxPart> parts;
    for (const ColumnShare& share : shares) {
      parts.insert(parts.end(), share.parts.begin(), share.parts.end());
    }
    for (const ColumnShare& share : shares) {
      const CrossEntropyShape& shape = share.shape.columns;
      const int64_t width = shape.vocabulary;
      HostArray strided(DType::kF32, c.rows * shape.logits_stride);
      for (int64_t i = 0; i < share.logits.size(); ++i) {
        strided.Set(i / width * shape.logits_stride + i % width, share.logits.Get(i));
      }
      auto* const put = static_cast<float*>(Put(strided));
      const int32_t* const put_labels = PutValues(labels);
      auto* const got_parts = static_cast<SoftmaxPart*>(Room(c.rows * sizeof(SoftmaxPart)));
      ops().SoftmaxParts(share.shape, put, put_labels, got_parts);
      std::vector<SoftmaxPart> read(c.rows);
      ReadBytes(got_parts, read.data(), c.rows * sizeof(SoftmaxPart));
      for (int64_t r = 0; r < c.rows; ++r) {
        if (std::isnan(share.parts[r].sum)) {
          EXPECT_TRUE(std::isnan(read[r].sum)) << r;
          continue;
        }
        EXPECT_EQ(read[r].largest, share.parts[r].largest) << r;
        EXPECT_EQ(read[r].label, share.parts[r].label) << r;
        EXPECT_NEAR(read[r].sum, share.parts[r].sum, 1e-6 * std::abs(share.parts[r].sum)) << r;
        EXPECT_NEAR(read[r].logits, share.parts[r].logits, 1e-3) << r;
      }

      HostArray gradient(type(), c.rows * width);
      HeadSums sums;
      WithType(type(), [&](auto zero) {
        using T = decltype(zero);
        sums = CrossEntropyOfParts<T>(KernelShape(share.shape), kRanks, parts.data(),
                                      share.logits.As<float>(), labels.data(), kScale,
                                      gradient.As<T>(), width);
      });
      auto* const got_sums = PutValues(std::vector<HeadSums>{{10, 20, 30}});
      ops().CrossEntropyOfParts(
          share.shape, type(),
          {.columns = {.logits = put,
                       .labels = put_labels,
                       .gradient = put,
                       .gradient_scale = PutValues(std::vector<float>{kScale}),
                       .sums = got_sums},
           .ranks = kRanks,
           .parts = PutValues(parts)});
      HeadSums got;
      ReadBytes(got_sums, &got, sizeof(got));
      if (std::isnan(sums.loss)) {
        EXPECT_TRUE(std::isnan(got.loss));
      } else {
        EXPECT_NEAR(got.loss, 10 + sums.loss, 1e-5 * static_cast<double>(c.rows));
      }
      EXPECT_EQ(got.tokens, 20 + sums.tokens);
      EXPECT_EQ(got.correct, 30 + sums.correct);
      for (int64_t r = 0; r < c.rows; ++r) {
        HostArray row(type(), width);
        for (int64_t i = 0; i < width; ++i) row.Set(i, gradient.Get(r * width + i));
        Expect(put + r * shape.logits_stride, row, {.absolute = 1e-6 * kScale, .relative = 4e-6},
               "gradient");
      }
    }
  }
}

}  // namespace
}  // namespace muster
