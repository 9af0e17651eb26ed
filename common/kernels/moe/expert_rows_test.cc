#include "common/kernels/moe/expert_rows.h"

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Each token's k different experts of the first `used`.
std::vector<int32_t> RandomChoice(int64_t tokens, int64_t used, int64_t k, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> experts(used), chosen;
  std::iota(experts.begin(), experts.end(), 0);
  for (int64_t n = 0; n < tokens; ++n) {
    std::shuffle(experts.begin(), experts.end(), random);
    chosen.insert(chosen.end(), experts.begin(), experts.begin() + k);
  }
  return chosen;
}

struct OrderedRows {
  explicit OrderedRows(const RouterShape& shape, const std::vector<int32_t>& chosen)
      : offsets(shape.experts + 1, -1), assignments(shape.rows(), -1), places(shape.rows(), -1) {
    OrderRows(
        shape, chosen.data(),
        {.offsets = offsets.data(), .assignments = assignments.data(), .places = places.data()});
  }
  std::vector<int32_t> offsets, assignments, places;
};

TEST(ExpertRowsTest, RowsAreOrderedByExpertAndWithinOneByToken) {
  struct Case {
    RouterShape shape;
    int64_t used;
  };
  for (const Case& c : {Case{{.tokens = 1, .experts = 1, .top_k = 1}, 1},
                        Case{{.tokens = 1, .experts = 7, .top_k = 2}, 7},
                        Case{{.tokens = 50, .experts = 8, .top_k = 8}, 8},
                        // Most experts are empty; all tokens go to one.
                        Case{{.tokens = 300, .experts = 64, .top_k = 2}, 5},
                        Case{{.tokens = 33, .experts = 4, .top_k = 1}, 1}}) {
    const auto chosen = RandomChoice(c.shape.tokens, c.used, c.shape.top_k, 1);
    const OrderedRows rows(c.shape, chosen);
    std::vector<int32_t> wanted(c.shape.rows());
    std::iota(wanted.begin(), wanted.end(), 0);
    std::stable_sort(wanted.begin(), wanted.end(),
                     [&](int32_t a, int32_t b) { return chosen[a] < chosen[b]; });
    EXPECT_EQ(rows.assignments, wanted);
    for (int64_t row = 0; row < c.shape.rows(); ++row) {
      EXPECT_EQ(rows.places[rows.assignments[row]], row);
    }
    EXPECT_EQ(rows.offsets.front(), 0);
    for (int64_t e = 0; e < c.shape.experts; ++e) {
      const int64_t count = std::count(chosen.begin(), chosen.end(), e);
      EXPECT_EQ(rows.offsets[e + 1] - rows.offsets[e], count) << e;
    }
  }
}

template <typename T>
class ExpertRowsTypesTest : public testing::Test {};
TYPED_TEST_SUITE(ExpertRowsTypesTest, KernelTypes);

template <typename T>
constexpr DType kTypeOf = std::is_same_v<T, BFloat16>  ? DType::kBf16
                          : std::is_same_v<T, Float16> ? DType::kF16
                                                       : DType::kF32;

TYPED_TEST(ExpertRowsTypesTest, GathersAndCombines) {
  using T = TypeParam;
  struct Case {
    int64_t tokens, k, width;
  };
  for (const auto& [N, k, C] : {Case{1, 1, 1}, Case{5, 2, 16}, Case{40, 3, 37}, Case{700, 2, 65}}) {
    const TokenRowsShape shape = {.type = kTypeOf<T>, .tokens = N, .top_k = k, .width = C};
    const OrderedRows rows({.tokens = N, .experts = 6, .top_k = k}, RandomChoice(N, 6, k, 2));
    const auto x = RandomArray<T>(N * C, 3);
    std::vector<T> gathered(N * k * C);
    GatherRows(shape, x.data(), rows.assignments.data(), gathered.data());
    for (int64_t i = 0; i < N * k * C; ++i) {
      ASSERT_TRUE(gathered[i] == x[rows.assignments[i / C] / k * C + i % C]);
    }

    const auto of_experts = RandomArray<T>(N * k * C, 4), first = RandomArray<T>(N * C, 5),
               third = RandomArray<T>(N * C, 6);
    for (const bool with_bases : {false, true}) {
      std::vector<double> wanted(N * C);
      for (int64_t i = 0; i < N * C; ++i) {
        for (int64_t j = 0; j < k; ++j) {
          wanted[i] += ToFloat(of_experts[rows.places[i / C * k + j] * C + i % C]);
        }
        if (with_bases) wanted[i] += ToFloat(first[i]) + ToFloat(third[i]);
      }
      ForEachInstructionSet([&] {
        std::vector<T> out(N * C);
        CombineArrays arrays = {
            .rows = of_experts.data(), .places = rows.places.data(), .out = out.data()};
        if (with_bases) {
          arrays.bases[0] = first.data();
          // The result lies over a summand.
          out = third;
          arrays.bases[2] = out.data();
        }
        CombineRows<T>(shape, arrays);
        ExpectNear(out, wanted, 1e-6, kRounding<T>, "combined");
      });
    }
  }
}

TYPED_TEST(ExpertRowsTypesTest, GatesRowsAndTheirGradients) {
  using T = TypeParam;
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  for (const auto& [N, C] : {std::pair<int64_t, int64_t>{1, 1}, {9, 16}, {300, 67}}) {
    const TokenRowsShape shape = {.type = kTypeOf<T>, .tokens = N, .width = C};
    auto logits = RandomArray(N, 1, -5, 5);
    if (N > 2) logits[0] = 1e4f, logits[1] = -1e4f;
    const auto x = RandomArray<T>(N * C, 2), dy = RandomArray<T>(N * C, 3);
    std::vector<double> y, dx, dlogits(N);
    for (int64_t i = 0; i < N * C; ++i) {
      const double gate = sigmoid(logits[i / C]);
      y.push_back(gate * ToFloat(x[i]));
      dx.push_back(gate * ToFloat(dy[i]));
      dlogits[i / C] += gate * (1 - gate) * ToFloat(dy[i]) * ToFloat(x[i]);
    }
    ForEachInstructionSet([&] {
      std::vector<T> got = x;
      GateRows<T>(shape, {.logits = logits.data(), .x = got.data(), .y = got.data()});
      ExpectNear(got, y, 1e-7, 1e-6 + kRounding<T>, "y");
      // Into an array of its own, and over each input.
      for (int over = 0; over < 3; ++over) {
        std::vector<T> left = x, right = dy, other(N * C), of_logits(N);
        T* const into = over == 0 ? other.data() : over == 1 ? left.data() : right.data();
        GateRowsBackward<T>(shape, {.logits = logits.data(),
                                    .x = left.data(),
                                    .dy = right.data(),
                                    .dx = into,
                                    .dlogits = of_logits.data()});
        ExpectNear(std::vector<T>(into, into + N * C), dx, 1e-7, 1e-6 + kRounding<T>, "dx");
        ExpectNear(of_logits, dlogits, 2e-6, 1e-6 + kRounding<T>, "dlogits");
      }
    });
  }
}

TYPED_TEST(ExpertRowsTypesTest, TheSameBitsOnAnyThreads) {
  using T = TypeParam;
  const int64_t N = 900, k = 2, C = 97;
  const TokenRowsShape shape = {.type = kTypeOf<T>, .tokens = N, .top_k = k, .width = C};
  const OrderedRows rows({.tokens = N, .experts = 6, .top_k = k}, RandomChoice(N, 6, k, 2));
  const auto x = RandomArray<T>(N * C, 3);
  const auto logits = RandomArray(N, 4);
  ExpectSameBitsOnAnyThreads([&] {
    std::vector<T> gathered(N * k * C), out(N * C), dlogits(N);
    GatherRows(shape, x.data(), rows.assignments.data(), gathered.data());
    CombineRows<T>(shape,
                   {.rows = gathered.data(), .places = rows.places.data(), .out = out.data()});
    GateRowsBackward<T>(shape, {.logits = logits.data(),
                                .x = x.data(),
                                .dy = out.data(),
                                .dx = out.data(),
                                .dlogits = dlogits.data()});
    out.insert(out.end(), dlogits.begin(), dlogits.end());
    return out;
  });
}

}  // namespace
}  // namespace muster
