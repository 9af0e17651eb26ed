#include "common/kernels/transformer/cross_entropy_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

std::vector<int32_t> Labels(int64_t rows, int64_t vocabulary) {
  std::vector<int32_t> labels(rows);
  for (int64_t r = 0; r < rows; ++r) {
    labels[r] = r % 4 == 3 ? -1 : static_cast<int32_t>(r * 31 % vocabulary);
  }
  return labels;
}

// A loss may have these besides cross entropy.
struct Terms {
  double smoothing = 0;
  double z = 0;

  LossTerms Over(int64_t vocabulary) const {
    return LossTerms::Of(static_cast<float>(smoothing), static_cast<float>(z), vocabulary);
  }
};
constexpr Terms kTerms[] = {{}, {0.25, 0}, {0, 0.125}, {0.25, 0.125}};

// Of one row, in f64.
double LossOf(const std::vector<double>& logits, int32_t label, const Terms& terms) {
  if (label < 0) return 0;
  double exp_sum = 0, sum = 0;
  for (const double logit : logits) {
    exp_sum += std::exp(logit);
    sum += logit;
  }
  const double log = std::log(exp_sum);
  const double mean = sum / static_cast<double>(logits.size());
  return log - (1 - terms.smoothing) * logits[label] - terms.smoothing * mean + terms.z * log * log;
}

template <typename T>
class CrossEntropyRowsTest : public testing::Test {};
TYPED_TEST_SUITE(CrossEntropyRowsTest, KernelTypes);

TYPED_TEST(CrossEntropyRowsTest, LossesAndGradientsAreTheDefinitions) {
  using T = TypeParam;
  constexpr float kScale = 0.5f;
  const double relative = 1e-5 + kRounding<T>;
  const int64_t rows = 9;
  for (const int64_t V : {1, 7, 64, 257, 5000}) {
    const auto logits = RandomArray(rows * V, 1, -5, 5);
    const auto labels = Labels(rows, V);
    for (const Terms& terms : kTerms) {
      SCOPED_TRACE(testing::Message() << "smoothing " << terms.smoothing << ", z " << terms.z);
      const LogitsShape shape = {.rows = rows, .vocabulary = V, .terms = terms.Over(V)};
      LogitsShape one = shape;
      one.rows = 1;
      ForEachInstructionSet([&] {
        std::vector<T> dlogits(rows * V);
        double loss_sum = 0;
        for (int64_t r = 0; r < rows; ++r) {
          const auto row =
              Doubles(std::vector<float>(logits.data() + r * V, logits.data() + r * V + V));
          const auto loss = [&](const std::vector<double>& x) {
            return LossOf(x, labels[r], terms);
          };
          const HeadSums sums = SoftmaxCrossEntropyRows(
              one, logits.data() + r * V, labels.data() + r, kScale, dlogits.data() + r * V, V);
          ASSERT_NEAR(sums.loss, loss(row), 2e-6 * (1 + loss(row))) << V << ", " << r;
          EXPECT_EQ(sums.tokens, labels[r] < 0 ? 0 : 1);
          loss_sum += sums.loss;
          for (int64_t v = 0; v < V; v += V / 10 + 1) {
            const double slope = kScale * Difference(loss, row, v);
            // It is a share of the terms, of which those at the label and those of all tokens may
            // cancel out. 1e-7: small ones in f16.
            const double size = std::abs(slope) + (v == labels[r] ? kScale : 0) +
                                kScale * terms.smoothing / static_cast<double>(V);
            ASSERT_NEAR(ToFloat(dlogits[r * V + v]), slope, 1e-7 + relative * size)
                << V << ", " << r << ", " << v;
          }
        }
        std::vector<T> together(rows * V);
        const HeadSums sums = SoftmaxCrossEntropyRows(shape, logits.data(), labels.data(), kScale,
                                                      together.data(), V);
        EXPECT_NEAR(sums.loss, loss_sum, 1e-12 * (1 + loss_sum));
        EXPECT_EQ(sums.tokens, rows - rows / 4);
        EXPECT_TRUE(together == dlogits) << "a row's gradient depends on the rows beside it";
      });
    }
  }
}

// dlogits beside the logits, over them, and left out: the same.
TYPED_TEST(CrossEntropyRowsTest, RowsInPlaceAndOnAnyThreads) {
  using T = TypeParam;
  constexpr int64_t kPerFloat = sizeof(float) / sizeof(T);
  for (const int64_t V : {1, 5, 16, 1003, 3001}) {
    const int64_t rows = 37;
    const auto logits = RandomArray(rows * V, 1, -20, 20);
    const auto labels = Labels(rows, V);
    std::vector<T> apart(rows * V);
    const HeadSums wanted = SoftmaxCrossEntropyRows({.rows = rows, .vocabulary = V}, logits.data(),
                                                    labels.data(), 2.0f, apart.data(), V);
    ForEachInstructionSet([&] {
      ExpectSameBitsOnAnyThreads([&] {
        std::vector<T> beside(rows * V);
        const HeadSums sums = SoftmaxCrossEntropyRows(
            {.rows = rows, .vocabulary = V}, logits.data(), labels.data(), 2.0f, beside.data(), V);
        EXPECT_NEAR(sums.loss, wanted.loss, 1e-6 * wanted.loss + 1e-9);
        EXPECT_EQ(sums.correct, wanted.correct);
        std::vector<float> over = logits;
        T* dlogits = reinterpret_cast<T*>(over.data());
        SoftmaxCrossEntropyRows({.rows = rows, .vocabulary = V}, over.data(), labels.data(), 2.0f,
                                dlogits, V * kPerFloat);
        for (int64_t r = 0; r < rows; ++r) {
          double sum = 0;
          for (int64_t v = 0; v < V; ++v) {
            const float value = ToFloat(beside[r * V + v]);
            EXPECT_EQ(ToFloat(dlogits[r * V * kPerFloat + v]), value);
            sum += value;
            if (labels[r] < 0) {
              EXPECT_EQ(value, 0);
            }
          }
          EXPECT_NEAR(sum, 0, 4 * kRounding<T> * 16 + 2e-6);
        }
        const HeadSums only =
            SoftmaxCrossEntropyRows({.rows = rows, .vocabulary = V}, logits.data(), labels.data(),
                                    2.0f, static_cast<T*>(nullptr), 0);
        EXPECT_EQ(only.loss, sums.loss);
        return beside;
      });
    });
  }
}

// The columns of one of several ranks.
struct Share {
  int64_t begin = 0;
  VocabularyShape shape;
  std::vector<float> logits;
};

// Divides rows of V tokens and `columns` columns into equal shares; the last may be padding alone.
std::vector<Share> SharesOf(const std::vector<float>& logits, int64_t rows, int64_t V,
                            int64_t columns, int ranks, const LossTerms& terms = {}) {
  std::vector<Share> shares(ranks);
  const int64_t width = (columns + ranks - 1) / ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    Share& share = shares[rank];
    share.begin = rank * width;
    share.shape.first_token = static_cast<int32_t>(share.begin);
    share.shape.columns = {.rows = rows,
                           .vocabulary = std::clamp<int64_t>(V - share.begin, 0, width),
                           .columns = width,
                           .terms = terms};
    share.logits.resize(rows * width, std::numeric_limits<float>::quiet_NaN());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < width && share.begin + c < V; ++c) {
        share.logits[r * width + c] = logits[r * V + share.begin + c];
      }
    }
  }
  return shares;
}

// Ranks that divide the columns get together what one alone gets.
TYPED_TEST(CrossEntropyRowsTest, RanksThatDivideTheColumns) {
  using T = TypeParam;
  constexpr int64_t kPerFloat = sizeof(float) / sizeof(T);
  constexpr float kScale = 2;
  const int64_t rows = 37;
  for (const int64_t V : {1, 7, 64, 1003}) {
    auto logits = RandomArray(rows * V, 1, -20, 20);
    const auto labels = Labels(rows, V);
    if (V > 10) {
      // A tie of two ranks: the first column counts, which is not the label's in row 1.
      logits[0 * V + labels[0]] = logits[0 * V + V - 1] = 30;
      logits[1 * V + labels[1]] = logits[1 * V + 0] = 30;
      // All but one column of row 2 have no probability.
      for (int64_t v = 0; v < V; ++v) logits[2 * V + v] = -INFINITY;
      logits[2 * V + labels[2]] = 3;
    }
    for (const auto& [ranks, terms] :
         {std::pair(1, kTerms[3]), std::pair(2, kTerms[0]), std::pair(2, kTerms[1]),
          std::pair(3, kTerms[2]), std::pair(4, kTerms[0]), std::pair(4, kTerms[3])}) {
      SCOPED_TRACE(testing::Message() << V << " columns, " << ranks << " ranks, smoothing "
                                      << terms.smoothing << ", z " << terms.z);
      // Minus infinity has no loss with smoothing.
      if (V > 10 && terms.smoothing > 0) {
        for (int64_t v = 0; v < V; ++v) logits[2 * V + v] = static_cast<float>(v % 5);
      }
      const LogitsShape shape = {.rows = rows, .vocabulary = V, .terms = terms.Over(V)};
      ForEachInstructionSet([&, ranks = ranks] {
        std::vector<T> wanted(rows * V);
        const HeadSums alone =
            SoftmaxCrossEntropyRows(shape, logits.data(), labels.data(), kScale, wanted.data(), V);
        std::vector<Share> shares = SharesOf(logits, rows, V, V + 3, ranks, shape.terms);
        std::vector<SoftmaxPart> parts(ranks * rows);
        for (int rank = 0; rank < ranks; ++rank) {
          SoftmaxParts(shares[rank].shape, shares[rank].logits.data(), labels.data(),
                       parts.data() + rank * rows);
        }
        for (Share& share : shares) {
          T* const dlogits = reinterpret_cast<T*>(share.logits.data());
          const int64_t width = share.shape.columns.columns;
          const HeadSums sums =
              CrossEntropyOfParts(share.shape, ranks, parts.data(), share.logits.data(),
                                  labels.data(), kScale, dlogits, width * kPerFloat);
          EXPECT_NEAR(sums.loss, alone.loss, 1e-6 * (1 + alone.loss));
          EXPECT_EQ(sums.tokens, alone.tokens);
          EXPECT_EQ(sums.correct, alone.correct);
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < width; ++c) {
              const float got = ToFloat(dlogits[r * width * kPerFloat + c]);
              const int64_t v = share.begin + c;
              const float want = v < V ? ToFloat(wanted[r * V + v]) : 0;
              ASSERT_NEAR(got, want, 1.6e-5 + 2 * kRounding<T> * std::abs(want)) << r << ", " << v;
            }
          }
        }
      });
    }
  }
}

// A NaN of any rank makes the loss of its row a NaN on all.
TYPED_TEST(CrossEntropyRowsTest, NanOfAnyRankIsSeenByAll) {
  const int64_t rows = 1, V = 64;
  auto logits = RandomArray(rows * V, 1, -5, 5);
  const std::vector<int32_t> labels = {3};
  for (const int64_t at : {3, 20, 63}) {
    auto spoilt = logits;
    spoilt[at] = std::numeric_limits<float>::quiet_NaN();
    ForEachInstructionSet([&] {
      std::vector<Share> shares = SharesOf(spoilt, rows, V, V, 4);
      std::vector<SoftmaxPart> parts(4);
      for (int rank = 0; rank < 4; ++rank) {
        SoftmaxParts(shares[rank].shape, shares[rank].logits.data(), labels.data(), &parts[rank]);
      }
      for (const Share& share : shares) {
        const HeadSums sums =
            CrossEntropyOfParts(share.shape, 4, parts.data(), share.logits.data(), labels.data(),
                                1.0f, static_cast<TypeParam*>(nullptr), 0);
        EXPECT_TRUE(std::isnan(sums.loss)) << at;
        EXPECT_EQ(sums.correct, 0);
      }
    });
  }
}

// Columns of padding, whatever is in them, change nothing and get no gradient.
TYPED_TEST(CrossEntropyRowsTest, PaddingTakesNoPart) {
  using T = TypeParam;
  const int64_t rows = 37, V = 1003, columns = 1024;
  const auto logits = RandomArray(rows * V, 1, -20, 20);
  const auto labels = Labels(rows, V);
  std::vector<float> padded(rows * columns, 1e6f);
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(logits.data() + r * V, V, padded.data() + r * columns);
    padded[r * columns + V] = std::numeric_limits<float>::quiet_NaN();
  }
  ForEachInstructionSet([&] {
    std::vector<T> wanted(rows * V), got(rows * columns, Rounded<T>(7));
    const HeadSums plain = SoftmaxCrossEntropyRows({.rows = rows, .vocabulary = V}, logits.data(),
                                                   labels.data(), 2.0f, wanted.data(), V);
    const HeadSums sums =
        SoftmaxCrossEntropyRows({.rows = rows, .vocabulary = V, .columns = columns}, padded.data(),
                                labels.data(), 2.0f, got.data(), columns);
    EXPECT_EQ(sums.loss, plain.loss);
    EXPECT_EQ(sums.tokens, plain.tokens);
    EXPECT_EQ(sums.correct, plain.correct);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t v = 0; v < columns; ++v) {
        const float value = v < V ? ToFloat(wanted[r * V + v]) : 0;
        ASSERT_EQ(ToFloat(got[r * columns + v]), value) << r << ", " << v;
      }
    }
  });
}

TEST(CrossEntropySumsTest, CorrectIsTheFirstLargestAndNanIsSeen) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> logits = {1,   2, 2,  //
                                     1,   2, 2,  //
                                     3,   1, 1,  //
                                     nan, 1, 0};
  const std::vector<int32_t> labels = {1, 2, 0, 1};
  ForEachInstructionSet([&] {
    const HeadSums sums =
        SoftmaxCrossEntropyRows({.rows = 3, .vocabulary = 3}, logits.data(), labels.data(), 1.0f,
                                static_cast<float*>(nullptr), 0);
    EXPECT_EQ(sums.correct, 2);
    EXPECT_EQ(sums.tokens, 3);
    const HeadSums with_nan =
        SoftmaxCrossEntropyRows({.rows = 4, .vocabulary = 3}, logits.data(), labels.data(), 1.0f,
                                static_cast<float*>(nullptr), 0);
    EXPECT_EQ(with_nan.correct, 2);
    EXPECT_TRUE(std::isnan(with_nan.loss));
  });
}

// Values of PyTorch 1.13: cross_entropy(x, labels, label_smoothing=0.2, reduction="sum"), and the
// same + 0.05 * (logsumexp(x) ** 2).sum(), in f64.
TEST(CrossEntropySumsTest, TermsAreThoseOfPyTorch) {
  const std::vector<float> logits = {0.5f, -1.25f, 2,     0.75f, -3,  //
                                     1.5f, 1,      -0.5f, 0.25f, 4};
  const std::vector<int32_t> labels = {1, 4};
  const struct {
    float z;
    double loss;
    std::vector<double> gradient;
  } cases[] = {{0,
                4.1855769386,
                {0.103478491, -0.815067177, 0.603025983, 0.144230029, -0.035667325, 0.030368695,
                 0.002680771, -0.030476633, -0.019839031, 0.017266199}},
               {0.05f,
                5.3464287991,
                {0.138509770, -0.808979653, 0.760025287, 0.189211082, -0.034609472, 0.059599898,
                 0.020410392, -0.026520620, -0.011464151, 0.373375160}}};
  for (const auto& [z, loss, gradient] : cases) {
    ForEachInstructionSet([&, z = z, loss = loss, &gradient = gradient] {
      std::vector<float> dlogits(10);
      const HeadSums sums =
          SoftmaxCrossEntropyRows({.rows = 2, .vocabulary = 5, .terms = LossTerms::Of(0.2f, z, 5)},
                                  logits.data(), labels.data(), 1.0f, dlogits.data(), 5);
      EXPECT_NEAR(sums.loss, loss, 1e-6);
      for (int i = 0; i < 10; ++i) EXPECT_NEAR(dlogits[i], gradient[i], 3e-7) << i;
    });
  }
}

TEST(CrossEntropySumsTest, LargeLogitsStayFinite) {
  const std::vector<float> logits = {1e4f, -1e4f, 9999};
  const int32_t label = 1;
  std::vector<float> dlogits(3);
  const HeadSums sums = SoftmaxCrossEntropyRows({.rows = 1, .vocabulary = 3}, logits.data(), &label,
                                                1.0f, dlogits.data(), 3);
  EXPECT_NEAR(sums.loss, 2e4 + std::log(1 + std::exp(-1.0)), 1e-3);
  EXPECT_NEAR(dlogits[0], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_EQ(dlogits[1], -1);
}

}  // namespace
}  // namespace muster
