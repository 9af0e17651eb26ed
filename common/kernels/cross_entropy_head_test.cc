#include "common/kernels/cross_entropy_head.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/kernels/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

struct Case {
  int64_t rows, width, vocabulary, chunk_rows;
};
const Case kCases[] = {
    {1, 1, 1, 0}, {5, 3, 7, 2}, {9, 16, 64, 4}, {33, 20, 257, 16}, {40, 8, 5000, 0}};

std::vector<int32_t> Labels(int64_t rows, int64_t vocabulary) {
  std::vector<int32_t> labels(rows);
  for (int64_t r = 0; r < rows; ++r) {
    labels[r] = r % 4 == 3 ? -1 : static_cast<int32_t>(r * 31 % vocabulary);
  }
  return labels;
}

// Losses of all rows in f64.
std::vector<double> LossesOf(const Case& c, const std::vector<double>& h,
                             const std::vector<double>& w, const std::vector<int32_t>& labels) {
  std::vector<double> losses(c.rows);
  for (int64_t r = 0; r < c.rows; ++r) {
    if (labels[r] < 0) continue;
    double sum = 0, own = 0;
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      double logit = 0;
      for (int64_t i = 0; i < c.width; ++i) logit += h[r * c.width + i] * w[v * c.width + i];
      sum += std::exp(logit);
      if (v == labels[r]) own = logit;
    }
    losses[r] = std::log(sum) - own;
  }
  return losses;
}

double Sum(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum;
}

template <typename T>
class CrossEntropyHeadTest : public testing::Test {};
TYPED_TEST_SUITE(CrossEntropyHeadTest, KernelTypes);

TYPED_TEST(CrossEntropyHeadTest, LossesAndGradients) {
  using T = TypeParam;
  constexpr float kScale = 0.5f;
  for (const Case& c : kCases) {
    const HeadShape shape = {c.rows, c.width, c.vocabulary, c.chunk_rows};
    const auto h = RandomArray<T>(c.rows * c.width, 1),
               w = RandomArray<T>(c.vocabulary * c.width, 2);
    const auto labels = Labels(c.rows, c.vocabulary);
    const auto wanted = LossesOf(c, Doubles(h), Doubles(w), labels);
    ForEachInstructionSet([&] {
      for (const int threads : {1, 2}) {
        SetComputeThreads(threads);
        std::vector<float> scratch(CrossEntropyHeadScratch(shape)), losses(c.rows);
        std::vector<float> dw(w.size(), 1);
        std::vector<T> dh(h.size());
        const HeadInputs<T> in = {h.data(), w.data(), labels.data(), kScale};
        const HeadSums sums =
            CrossEntropyHead<T>(shape, in, {losses.data(), dh.data(), dw.data()}, scratch.data());
        ExpectNear(losses, wanted, 2e-6, 2e-6, "losses");
        EXPECT_NEAR(sums.loss, Sum(wanted), 1e-6 * (1 + Sum(wanted)));
        EXPECT_EQ(sums.tokens, c.rows - c.rows / 4);
        // As without gradients, which evaluation leaves out.
        std::vector<float> losses_alone(c.rows);
        const HeadSums alone =
            CrossEntropyHead<T>(shape, in, {losses_alone.data()}, scratch.data());
        EXPECT_EQ(losses_alone, losses);
        EXPECT_EQ(alone.loss, sums.loss);
        EXPECT_EQ(alone.correct, sums.correct);
        // dlogits are rounded to T, a relative error of each.
        const double relative = 1e-5 + 2 * kRounding<T>;
        for (size_t i = 0; i < h.size(); i += h.size() / 10 + 1) {
          const auto loss = [&](const std::vector<double>& v) {
            return kScale * Sum(LossesOf(c, v, Doubles(w), labels));
          };
          const double by = Difference(loss, Doubles(h), i);
          ASSERT_NEAR(ToFloat(dh[i]), by, 5e-6 + relative) << i;
        }
        for (size_t i = 0; i < w.size(); i += w.size() / 10 + 1) {
          const auto loss = [&](const std::vector<double>& v) {
            return kScale * Sum(LossesOf(c, Doubles(h), v, labels));
          };
          ASSERT_NEAR(dw[i] - 1, Difference(loss, Doubles(w), i), 5e-6 + relative) << i;
        }
      }
    });
    SetComputeThreads(1);
  }
}

TYPED_TEST(CrossEntropyHeadTest, LogitsAreTheProduct) {
  using T = TypeParam;
  const int64_t rows = 3, C = 19, V = 301;
  const auto h = RandomArray<T>(rows * C, 1), w = RandomArray<T>(V * C, 2);
  std::vector<float> logits(rows * V);
  HeadLogits<T>({.rows = rows, .width = C, .vocabulary = V}, h.data(), w.data(), logits.data());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t v = 0; v < V; ++v) {
      double wanted = 0;
      for (int64_t i = 0; i < C; ++i)
        wanted += double{ToFloat(h[r * C + i])} * ToFloat(w[v * C + i]);
      ASSERT_NEAR(logits[r * V + v], wanted, 1e-5);
    }
  }
}

// dlogits beside the logits, over them, and left out: the same.
TYPED_TEST(CrossEntropyHeadTest, RowsInPlaceAndOnAnyThreads) {
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

// Columns of padding, whatever is in them, change nothing and get no gradient.
TYPED_TEST(CrossEntropyHeadTest, PaddingTakesNoPart) {
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

TEST(CrossEntropyRowsTest, CorrectIsTheFirstLargestAndNanIsSeen) {
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

TEST(CrossEntropyRowsTest, LargeLogitsStayFinite) {
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
