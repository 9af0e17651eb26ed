#include "common/kernels/transformer/attention.h"

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "common/kernels/transformer/documents_for_testing.h"
#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

struct AttentionCase {
  int64_t B, T, H, KV, D;
  // Elements between rows of qkv and of out.
  int64_t gap = 0;
  // Probability that a probability is dropped.
  float dropout = 0;
  // The seed of DocumentPositions; 0: each sequence is one document.
  uint32_t documents = 0;
  // AttentionShape::window.
  int64_t window = 0;
};
const AttentionCase kAttentionCases[] = {{1, 1, 1, 1, 1},
                                         {2, 3, 1, 1, 5},
                                         {1, 16, 2, 1, 16},
                                         {2, 17, 4, 2, 8, 3},
                                         {1, 49, 2, 2, 33, 1},
                                         {1, 65, 1, 1, 32},
                                         {1, 130, 6, 2, 20},
                                         {1, 257, 2, 1, 64, 5},
                                         {1, 321, 1, 1, 40},
                                         {1, 300, 2, 2, 128, 0},
                                         {1, 530, 1, 1, 48, 0},
                                         {1, 1, 1, 1, 8, 0, 0.5f},
                                         {2, 70, 4, 2, 8, 3, 0.2f},
                                         {2, 321, 2, 1, 24, 0, 0.5f},
                                         {2, 1, 1, 1, 3, 0, 0, 1},
                                         {2, 70, 4, 2, 8, 3, 0, 2},
                                         {2, 300, 2, 1, 33, 0, 0, 3},
                                         {1, 700, 1, 1, 16, 0, 0, 4},
                                         {1, 1100, 2, 1, 24, 0, 0, 5},
                                         {3, 200, 6, 2, 20, 0, 0, 6},
                                         {2, 330, 2, 1, 40, 0, 0.3f, 7},
                                         {1, 640, 4, 4, 8, 1, 0.1f, 8},
                                         {2, 70, 4, 2, 8, 3, 0, 0, 1},
                                         {1, 530, 2, 1, 48, 0, 0, 0, 100},
                                         {2, 330, 2, 1, 40, 0, 0.3f, 0, 64},
                                         {2, 300, 2, 1, 33, 0, 0, 9, 47}};

int64_t QkvStride(const AttentionCase& c) { return (c.H + 2 * c.KV) * c.D + c.gap; }
int64_t OutStride(const AttentionCase& c) { return c.H * c.D + c.gap; }

// Empty where each sequence is one document.
std::vector<int32_t> PositionsOf(const AttentionCase& c) {
  if (c.documents == 0) return {};
  return DocumentPositions(c.B, c.T, c.documents);
}

AttentionShape ShapeOf(const AttentionCase& c, const std::vector<int32_t>& positions = {}) {
  return {.B = c.B,
          .T = c.T,
          .H = c.H,
          .KV = c.KV,
          .D = c.D,
          .qkv_stride = c.gap == 0 ? 0 : QkvStride(c),
          .out_stride = c.gap == 0 ? 0 : OutStride(c),
          .token_positions = positions.empty() ? nullptr : positions.data(),
          .window = c.window};
}

constexpr uint64_t kFirstExample = 5;

DropoutMask MaskOf(const AttentionCase& c) { return DropoutMask(1, "attention", 9, c.dropout); }

// Of the keys of query t.
std::vector<float> FactorsOf(const AttentionCase& c, int64_t b, int64_t h, int64_t t) {
  std::vector<float> factors(t + 1, 1);
  if (c.dropout == 0) return factors;
  DropoutFactors(MaskOf(c), ((kFirstExample + b) * c.H + h) * c.T + t, 0, t + 1, factors.data());
  return factors;
}

struct AttentionReference {
  std::vector<double> out, logsumexp, dqkv;
};

// Forward by the definition and backward by the chain rule, with all probabilities, in f64.
AttentionReference AttentionOf(const AttentionCase& c, const std::vector<double>& qkv,
                               const std::vector<double>& dout) {
  AttentionReference r;
  r.out.assign(c.B * c.T * OutStride(c), 0);
  r.logsumexp.assign(c.B * c.H * c.T, 0);
  r.dqkv.assign(qkv.size(), 0);
  const double scale = 1 / std::sqrt(static_cast<double>(c.D));
  const std::vector<int32_t> positions = PositionsOf(c);
  for (int64_t b = 0; b < c.B; ++b) {
    for (int64_t h = 0; h < c.H; ++h) {
      const int64_t kv = h / (c.H / c.KV);
      for (int64_t i = 0; i < c.T; ++i) {
        const auto place = [&](int64_t t, int64_t head) {
          return (b * c.T + t) * QkvStride(c) + head * c.D;
        };
        const int64_t q = place(i, h), o = (b * c.T + i) * OutStride(c) + h * c.D;
        std::vector<double> p(i + 1), dp(i + 1);
        double sum = 0;
        int64_t first = positions.empty() ? 0 : i - positions[b * c.T + i];
        if (c.window > 0) first = std::max(first, i - c.window + 1);
        for (int64_t j = first; j <= i; ++j) {
          double s = 0;
          for (int64_t d = 0; d < c.D; ++d) s += qkv[q + d] * qkv[place(j, c.H + kv) + d];
          sum += p[j] = std::exp(s * scale);
        }
        r.logsumexp[(b * c.H + h) * c.T + i] = std::log(sum);
        const std::vector<float> factors = FactorsOf(c, b, h, i);
        double delta = 0;
        for (int64_t j = first; j <= i; ++j) {
          p[j] /= sum;
          const int64_t v = place(j, c.H + c.KV + kv);
          for (int64_t d = 0; d < c.D; ++d) {
            r.out[o + d] += factors[j] * p[j] * qkv[v + d];
            r.dqkv[v + d] += factors[j] * p[j] * dout[o + d];
            dp[j] += factors[j] * dout[o + d] * qkv[v + d];
          }
          delta += p[j] * dp[j];
        }
        for (int64_t j = first; j <= i; ++j) {
          const double ds = p[j] * (dp[j] - delta) * scale;
          const int64_t k = place(j, c.H + kv);
          for (int64_t d = 0; d < c.D; ++d) {
            r.dqkv[q + d] += ds * qkv[k + d];
            r.dqkv[k + d] += ds * qkv[q + d];
          }
        }
      }
    }
  }
  return r;
}

// The reference's backward is the derivative of its forward.
TEST(AttentionReferenceTest, GradientIsTheDifference) {
  for (const float dropout : {0.0f, 0.4f}) {
    const AttentionCase c = {1, 5, 2, 1, 3, 0, dropout};
    const auto qkv = Doubles(RandomArray(c.T * QkvStride(c), 1));
    const auto dout = Doubles(RandomArray(c.T * OutStride(c), 2));
    const auto loss = [&](const std::vector<double>& x) {
      return Dot(AttentionOf(c, x, dout).out, dout);
    };
    const auto gradient = AttentionOf(c, qkv, dout).dqkv;
    for (size_t i = 0; i < qkv.size(); ++i) {
      ASSERT_NEAR(gradient[i], Difference(loss, qkv, i), 1e-8) << i;
    }
  }
}

// Every `stride`-th row of elements that no head owns holds NaN: nobody may read it.
template <typename T>
std::vector<T> WithGaps(std::vector<T> x, int64_t stride, int64_t gap) {
  for (size_t r = 0; r < x.size() / stride; ++r) {
    for (int64_t g = 1; g <= gap; ++g) {
      x[(r + 1) * stride - g] = Rounded<T>(std::numeric_limits<double>::quiet_NaN());
    }
  }
  return x;
}

// Without the gaps, which are to hold `filler`.
template <typename T>
std::vector<T> Heads(const std::vector<T>& x, int64_t stride, int64_t gap, float filler) {
  std::vector<T> heads;
  for (size_t i = 0; i < x.size(); ++i) {
    if (static_cast<int64_t>(i) % stride < stride - gap) {
      heads.push_back(x[i]);
    } else {
      EXPECT_EQ(ToFloat(x[i]), filler) << "wrote between rows";
    }
  }
  return heads;
}

std::vector<double> Heads(const std::vector<double>& x, int64_t stride, int64_t gap) {
  std::vector<double> heads;
  for (size_t i = 0; i < x.size(); ++i) {
    if (static_cast<int64_t>(i) % stride < stride - gap) heads.push_back(x[i]);
  }
  return heads;
}

template <typename T>
class AttentionTest : public testing::Test {};
TYPED_TEST_SUITE(AttentionTest, KernelTypes);

TYPED_TEST(AttentionTest, ForwardAndBackwardOfManyShapes) {
  using T = TypeParam;
  constexpr float kFiller = 3;
  for (const AttentionCase& c : kAttentionCases) {
    SCOPED_TRACE(testing::Message() << "B " << c.B << " T " << c.T << " H " << c.H << " KV " << c.KV
                                    << " D " << c.D << " gap " << c.gap << " dropout " << c.dropout
                                    << " documents " << c.documents << " window " << c.window);
    const std::vector<int32_t> positions = PositionsOf(c);
    const AttentionShape shape = ShapeOf(c, positions);
    const DropoutMask mask = MaskOf(c);
    AttentionDropout dropout;
    if (c.dropout > 0) dropout = {&mask, kFirstExample};
    const auto plain_qkv = RandomArray<T>(c.B * c.T * QkvStride(c), 1, -2, 2);
    const auto plain_dout = RandomArray<T>(c.B * c.T * OutStride(c), 2);
    const auto qkv = WithGaps(plain_qkv, QkvStride(c), c.gap);
    const auto dout = WithGaps(plain_dout, OutStride(c), c.gap);
    const AttentionReference wanted = AttentionOf(c, Doubles(plain_qkv), Doubles(plain_dout));
    const auto wanted_out = Heads(wanted.out, OutStride(c), c.gap);
    const auto wanted_dqkv = Heads(wanted.dqkv, QkvStride(c), c.gap);
    ForEachInstructionSet([&] {
      std::vector<T> out(plain_dout.size(), Rounded<T>(kFiller));
      std::vector<T> dqkv(qkv.size(), Rounded<T>(kFiller));
      std::vector<float> logsumexp(c.B * c.H * c.T);
      Attention(shape, qkv.data(), out.data(), logsumexp.data(), dropout);
      ExpectNear(Heads(out, OutStride(c), c.gap, kFiller), wanted_out, 3e-6, kRounding<T>, "out");
      ExpectNear(logsumexp, wanted.logsumexp, 3e-6, 1e-6, "logsumexp");
      AttentionBackward(shape, qkv.data(), out.data(), logsumexp.data(), dout.data(), dqkv.data(),
                        dropout);
      // δ is made of outputs that were rounded to T.
      const auto got = Heads(dqkv, QkvStride(c), c.gap, kFiller);
      ExpectNear(got, wanted_dqkv, 2e-5 + 4 * kRounding<T>, 2 * kRounding<T>, "dqkv");
      EXPECT_LE(RelativeError(got, wanted_dqkv), kRounding<T> + 2e-6);
    });
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(AttentionTest, OnAnyThreadsAndOverItsInputTheSameBits) {
  using T = TypeParam;
  const AttentionCase c = {2, 500, 4, 2, 24, 0, 0.1f, 3};
  const std::vector<int32_t> positions = PositionsOf(c);
  const auto qkv = RandomArray<T>(c.B * c.T * QkvStride(c), 1);
  const auto dout = RandomArray<T>(c.B * c.T * OutStride(c), 2);
  const DropoutMask mask = MaskOf(c);
  for (const AttentionShape& shape : {ShapeOf(c), ShapeOf(c, positions)}) {
    for (const AttentionDropout& dropout : {AttentionDropout(), AttentionDropout{&mask, 3}}) {
      ExpectSameBitsOnAnyThreads([&] {
        std::vector<T> out(dout.size()), dqkv(qkv.size()), over = qkv;
        std::vector<float> logsumexp(c.B * c.H * c.T);
        Attention<T>(shape, qkv.data(), out.data(), logsumexp.data(), dropout);
        AttentionBackward<T>(shape, qkv.data(), out.data(), logsumexp.data(), dout.data(),
                             dqkv.data(), dropout);
        AttentionBackward<T>(shape, over.data(), out.data(), logsumexp.data(), dout.data(),
                             over.data(), dropout);
        EXPECT_TRUE(over == dqkv);
        return std::tuple(out, logsumexp, dqkv);
      });
    }
  }
}

// Forward and backward of all documents at once, and of each alone, whose rows are put together.
TYPED_TEST(AttentionTest, ADocumentIsWhatItIsAlone) {
  using T = TypeParam;
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    const AttentionCase c = {1,   150 + 97 * static_cast<int64_t>(seed), 2, 1, 8 + 5 * seed, 0, 0,
                             seed};
    const std::vector<int32_t> positions = PositionsOf(c);
    const auto qkv = RandomArray<T>(c.T * QkvStride(c), seed, -2, 2);
    const auto dout = RandomArray<T>(c.T * OutStride(c), seed + 100);
    std::vector<T> alone_out, alone_dqkv;
    for (int64_t begin = 0; begin < c.T;) {
      int64_t end = begin + 1;
      while (end < c.T && positions[end] != 0) ++end;
      AttentionShape shape = ShapeOf(c);
      shape.T = end - begin;
      std::vector<T> out(shape.T * OutStride(c)), dqkv(shape.T * QkvStride(c));
      std::vector<float> logsumexp(c.H * shape.T);
      const T* const in = qkv.data() + begin * QkvStride(c);
      Attention(shape, in, out.data(), logsumexp.data());
      AttentionBackward(shape, in, out.data(), logsumexp.data(), dout.data() + begin * OutStride(c),
                        dqkv.data());
      alone_out.insert(alone_out.end(), out.begin(), out.end());
      alone_dqkv.insert(alone_dqkv.end(), dqkv.begin(), dqkv.end());
      begin = end;
    }
    const auto wanted_out = Doubles(alone_out), wanted_dqkv = Doubles(alone_dqkv);
    ForEachInstructionSet([&] {
      std::vector<T> out(dout.size()), dqkv(qkv.size());
      std::vector<float> logsumexp(c.H * c.T);
      Attention(ShapeOf(c, positions), qkv.data(), out.data(), logsumexp.data());
      AttentionBackward(ShapeOf(c, positions), qkv.data(), out.data(), logsumexp.data(),
                        dout.data(), dqkv.data());
      // Sums are f32 of the same values in another order; in 16 bits some are then rounded to the
      // neighbour.
      EXPECT_LE(RelativeError(out, wanted_out), 1e-6 + kRounding<T> / 4) << seed;
      EXPECT_LE(RelativeError(dqkv, wanted_dqkv), 2e-6 + kRounding<T> / 4) << seed;
    });
  }
}

// The last of three documents, before which others stand.
TYPED_TEST(AttentionTest, NothingOfOtherDocumentsIsSeen) {
  using T = TypeParam;
  const AttentionCase c = {1, 400, 2, 1, 24};
  std::vector<int32_t> positions(c.T);
  for (int64_t t = 0; t < c.T; ++t) {
    positions[t] = static_cast<int32_t>(t < 130 ? t : t < 203 ? t - 130 : t - 203);
  }
  const auto dout = RandomArray<T>(c.T * OutStride(c), 2);
  const auto run = [&](float scale) {
    auto qkv = RandomArray<T>(c.T * QkvStride(c), 1);
    for (int64_t i = 0; i < 203 * QkvStride(c); ++i) {
      qkv[i] = Rounded<T>(scale * ToFloat(qkv[i]));
    }
    std::vector<T> out(dout.size()), dqkv(qkv.size());
    std::vector<float> logsumexp(c.H * c.T);
    const AttentionShape shape = ShapeOf(c, positions);
    Attention(shape, qkv.data(), out.data(), logsumexp.data());
    AttentionBackward(shape, qkv.data(), out.data(), logsumexp.data(), dout.data(), dqkv.data());
    out.erase(out.begin(), out.begin() + 203 * OutStride(c));
    dqkv.erase(dqkv.begin(), dqkv.begin() + 203 * QkvStride(c));
    return std::tuple(out, dqkv);
  };
  // Scores of the others of some thousands, too, where a probability of this row's sum would be
  // infinite.
  ForEachInstructionSet([&] { EXPECT_TRUE(run(1) == run(40)); });
}

// Scores that differ by hundreds, the largest late: the online maximum is what keeps sums finite.
TEST(AttentionRangeTest, LargeScores) {
  const AttentionCase c = {1, 700, 1, 1, 16};
  auto qkv = RandomArray(c.T * QkvStride(c), 1, -3, 3);
  for (int64_t t = 0; t < c.T; ++t) {
    for (int64_t d = 0; d < c.D; ++d) {
      qkv[t * QkvStride(c) + d] = 4;
      qkv[t * QkvStride(c) + c.D + d] = static_cast<float>(t) / 20;
    }
  }
  const std::vector<double> dout(c.T * OutStride(c), 1.0);
  // The reference takes no maximum, but e^559 is still finite in f64.
  const AttentionReference wanted = AttentionOf(c, Doubles(qkv), dout);
  ForEachInstructionSet([&] {
    std::vector<float> out(dout.size()), logsumexp(c.T);
    Attention<float>(ShapeOf(c), qkv.data(), out.data(), logsumexp.data());
    // Scores near 559 have errors of some 1e-4 themselves.
    ExpectNear(out, wanted.out, 3e-4, 3e-4, "out");
    ExpectNear(logsumexp, wanted.logsumexp, 1e-4, 1e-6, "logsumexp");
  });
}

TEST(AttentionRangeTest, NanReachesWhoSeesIt) {
  const AttentionCase c = {1, 70, 2, 1, 16};
  auto qkv = RandomArray(c.T * QkvStride(c), 1);
  // A key of token 50.
  qkv[50 * QkvStride(c) + 2 * c.D] = std::numeric_limits<float>::quiet_NaN();
  ForEachInstructionSet([&] {
    std::vector<float> out(c.T * OutStride(c)), logsumexp(2 * c.T);
    Attention<float>(ShapeOf(c), qkv.data(), out.data(), logsumexp.data());
    for (int64_t t = 0; t < c.T; ++t) {
      EXPECT_EQ(std::isnan(out[t * OutStride(c)]), t >= 50) << t;
      EXPECT_EQ(std::isnan(logsumexp[t]), t >= 50) << t;
    }
  });
}

// Tokens one by one, and several at a time, over the cache: what attention gives all at once.
class CachedAttentionTest : public testing::TestWithParam<int64_t> {};

TEST_P(CachedAttentionTest, GivesTheSame) {
  AttentionCase c = {2, 75, 6, 2, 20, 3};
  c.window = GetParam();
  const auto qkv = RandomArray(c.B * c.T * QkvStride(c), 1, -2, 2);
  std::vector<float> wanted(c.B * c.T * OutStride(c));
  Attention<float>(ShapeOf(c), qkv.data(), wanted.data(), nullptr);
  ForEachInstructionSet([&] {
    for (const int64_t step : {1, 7, 75}) {
      for (const int threads : {1, 2}) {
        SetComputeThreads(threads);
        constexpr int64_t kCapacity = 80;
        std::vector<float> keys(c.B * c.KV * kCapacity * c.D), values(keys.size());
        const KeyValueCache cache = {keys.data(), values.data(), kCapacity};
        for (int64_t t = 0; t < c.T; t += step) {
          // The step's rows of both sequences, packed.
          AttentionShape shape = ShapeOf(c);
          shape.T = std::min(step, c.T - t);
          std::vector<float> rows;
          for (int64_t b = 0; b < c.B; ++b) {
            const auto from = qkv.begin() + (b * c.T + t) * QkvStride(c);
            rows.insert(rows.end(), from, from + shape.T * QkvStride(c));
          }
          std::vector<float> out(c.B * shape.T * OutStride(c));
          AppendKeyValues(shape, t, rows.data(), cache);
          CachedAttention(shape, t, rows.data(), cache, out.data());
          for (int64_t b = 0; b < c.B; ++b) {
            for (int64_t i = 0; i < shape.T; ++i) {
              for (int64_t d = 0; d < c.H * c.D; ++d) {
                const float value = wanted[(b * c.T + t + i) * OutStride(c) + d];
                ASSERT_NEAR(out[(b * shape.T + i) * OutStride(c) + d], value,
                            3e-6 + 2 * kRounding<float> * std::abs(value));
              }
            }
          }
        }
      }
    }
  });
  SetComputeThreads(1);
}

INSTANTIATE_TEST_SUITE_P(Windows, CachedAttentionTest, testing::Values(0, 1, 20));

TEST(AttentionShapeTest, NothingToDo) {
  Attention<float>({.B = 2, .T = 0, .H = 2, .KV = 1, .D = 8}, nullptr, nullptr, nullptr);
  AttentionBackward<float>({.B = 0, .T = 4, .H = 2, .KV = 1, .D = 8}, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
}

}  // namespace
}  // namespace muster
