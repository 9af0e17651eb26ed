#include "common/kernels/moe/router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using Scores = RouterShape::Scores;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// s of one token.
std::vector<double> ScoresOf(Scores scores, const std::vector<double>& logits) {
  std::vector<double> s;
  double sum = 0;
  const double largest = *std::max_element(logits.begin(), logits.end());
  for (const double logit : logits) {
    s.push_back(scores == Scores::kSoftmax ? std::exp(logit - largest)
                                           : 1 / (1 + std::exp(-logit)));
    sum += s.back();
  }
  if (scores == Scores::kSoftmax) {
    for (double& each : s) each /= sum;
  }
  return s;
}

double LogSumExp(const std::vector<double>& logits) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  return std::log(sum);
}

// The places of the `most` highest values, the highest first; of equal ones the lowest.
std::vector<int32_t> PlacesOfHighest(const std::vector<double>& values, int64_t most) {
  std::vector<int32_t> places(values.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](int32_t a, int32_t b) { return values[a] > values[b]; });
  places.resize(most);
  return places;
}

std::vector<int32_t> ChosenOf(const RouterShape& shape, const std::vector<double>& s,
                              const std::vector<float>& bias) {
  std::vector<double> values = s;
  if (!bias.empty()) {
    for (size_t e = 0; e < s.size(); ++e) values[e] += static_cast<double>(bias[e]);
  }
  const int64_t size = shape.experts / shape.groups;
  std::vector<double> groups;
  for (int64_t g = 0; g < shape.groups; ++g) {
    std::vector<double> of_group(values.begin() + g * size, values.begin() + (g + 1) * size);
    std::sort(of_group.rbegin(), of_group.rend());
    groups.push_back(of_group[0] + (size > 1 ? of_group[1] : 0));
  }
  std::vector<double> masked(values.size(), -INFINITY);
  for (const int32_t g : PlacesOfHighest(groups, shape.top_groups)) {
    for (int64_t e = g * size; e < (g + 1) * size; ++e) masked[e] = values[e];
  }
  return PlacesOfHighest(masked, shape.top_k);
}

std::vector<double> WeightsOf(const RouterShape& shape, const std::vector<double>& s,
                              const std::vector<int32_t>& chosen) {
  double sum = shape.scores == Scores::kSigmoid ? 1e-20 : 0;
  for (const int32_t e : chosen) sum += s[e];
  std::vector<double> weights;
  for (const int32_t e : chosen) {
    weights.push_back(static_cast<double>(shape.scaling) * s[e] / (shape.normalize ? sum : 1));
  }
  return weights;
}

// The row of a token.
template <typename V>
std::vector<double> RowOf(const std::vector<V>& values, int64_t n, int64_t width) {
  return std::vector<double>(values.begin() + n * width, values.begin() + (n + 1) * width);
}

std::vector<RouterShape> Shapes() {
  std::vector<RouterShape> shapes;
  for (const Scores scores : {Scores::kSoftmax, Scores::kSigmoid}) {
    for (const bool normalize : {false, true}) {
      const RouterShape base = {.scores = scores, .normalize = normalize, .scaling = 2.5};
      const auto add = [&](int64_t tokens, int64_t experts, int64_t top_k, int64_t groups = 1,
                           int64_t top_groups = 1) {
        RouterShape shape = base;
        shape.tokens = tokens;
        shape.experts = experts;
        shape.top_k = top_k;
        shape.groups = groups;
        shape.top_groups = top_groups;
        shapes.push_back(shape);
      };
      add(1, 1, 1);
      add(1, 8, 2);
      add(37, 4, 4);
      add(70, 6, 1);
      add(200, 64, 8, 8, 3);
      add(50, 12, 3, 12, 5);
      add(2100, 20, 2, 2, 1);
    }
  }
  return shapes;
}

TEST(RouterTest, ChoosesAndWeighsAsTheDefinitionSays) {
  for (const RouterShape& shape : Shapes()) {
    const int64_t N = shape.tokens, E = shape.experts, k = shape.top_k;
    for (const bool biased : {false, true}) {
      const auto logits = RandomArray(N * E, 1, -3, 3);
      const auto bias = biased ? RandomArray(E, 2, -1.5, 0.5) : std::vector<float>();
      ForEachInstructionSet([&] {
        std::vector<int32_t> chosen(N * k, -1);
        std::vector<float> weights(N * k, kNan);
        Route(shape, {.logits = logits.data(),
                      .bias = biased ? bias.data() : nullptr,
                      .chosen = chosen.data(),
                      .weights = weights.data()});
        for (int64_t n = 0; n < N; ++n) {
          const auto s = ScoresOf(shape.scores, RowOf(logits, n, E));
          const auto wanted = ChosenOf(shape, s, bias);
          ASSERT_EQ(std::vector<int32_t>(chosen.begin() + n * k, chosen.begin() + (n + 1) * k),
                    wanted)
              << n;
          const auto right = WeightsOf(shape, s, wanted);
          for (int64_t j = 0; j < k; ++j) {
            ASSERT_NEAR(weights[n * k + j], right[j], 2e-6 * right[j]) << n;
          }
        }
      });
    }
  }
}

std::vector<int32_t> Choose(RouterShape shape, const std::vector<float>& logits,
                            const std::vector<float>& bias = {}) {
  shape.experts = static_cast<int64_t>(logits.size());
  shape.tokens = 1;
  std::vector<int32_t> chosen(shape.top_k);
  std::vector<float> weights(shape.top_k);
  Route(shape, {.logits = logits.data(),
                .bias = bias.empty() ? nullptr : bias.data(),
                .chosen = chosen.data(),
                .weights = weights.data()});
  return chosen;
}

TEST(RouterTest, OfEqualOnesTheLowerIndexWins) {
  using Indices = std::vector<int32_t>;
  for (const Scores scores : {Scores::kSoftmax, Scores::kSigmoid}) {
    EXPECT_EQ(Choose({.top_k = 3, .scores = scores}, {1, 1, 1, 1, 1}), (Indices{0, 1, 2}));
    EXPECT_EQ(Choose({.top_k = 3, .scores = scores}, {0, 2, 1, 2, 1}), (Indices{1, 3, 2}));
    // There are 20 experts, so that vectors and their rest must agree.
    EXPECT_EQ(Choose({.top_k = 2, .scores = scores}, std::vector<float>(20, -1)), (Indices{0, 1}));
    // A score of 0 is +0, also where its bias is -0.
    EXPECT_EQ(Choose({.top_k = 2, .scores = scores}, {-1e4f, -1e4f, 0}, {-0.0f, 0, -9}),
              (Indices{0, 1}));
    // Groups as well; the experts of two groups compete in their order.
    EXPECT_EQ(Choose({.top_k = 3, .scores = scores, .groups = 4, .top_groups = 2},
                     {1, 2, 2, 1, 2, 1, 1, 2}),
              (Indices{1, 2, 0}));
    EXPECT_EQ(
        Choose({.top_k = 1, .scores = scores, .groups = 3, .top_groups = 2}, {2, 0, 2, 1, -5, -5}),
        (Indices{0}));
  }
}

TEST(RouterTest, AMaskedGroupLosesToNegativeScores) {
  // Biased scores of the better group are below 0, and the masked group's single best above both.
  EXPECT_EQ(Choose({.top_k = 2, .scores = Scores::kSigmoid, .groups = 2, .top_groups = 1},
                   {0, 0, 0, 0}, {-1, -1, 0, -3}),
            (std::vector<int32_t>{0, 1}));
}

TEST(RouterTest, ANanIsBelowEveryNumber) {
  using Indices = std::vector<int32_t>;
  EXPECT_EQ(Choose({.top_k = 3, .scores = Scores::kSigmoid}, {kNan, -200, 3, kNan, -kInfinity}),
            (Indices{2, 1, 4}));
  EXPECT_EQ(Choose({.top_k = 4, .scores = Scores::kSigmoid}, {1, kNan, 2, kNan, 3}),
            (Indices{4, 2, 0, 1}));
  EXPECT_EQ(Choose({.top_k = 2, .scores = Scores::kSoftmax}, {1, 2, kNan}), (Indices{0, 1}));
  // A group with a NaN among its two best is below the others, and its experts are not chosen.
  EXPECT_EQ(Choose({.top_k = 2, .scores = Scores::kSigmoid, .groups = 2, .top_groups = 1},
                   {9, kNan, -5, -6}),
            (Indices{2, 3}));
  std::vector<float> weights(1);
  int32_t chosen;
  const float logits[] = {kNan, kNan};
  Route({.tokens = 1, .experts = 2},
        {.logits = logits, .chosen = &chosen, .weights = weights.data()});
  EXPECT_EQ(chosen, 0);
  EXPECT_TRUE(std::isnan(weights[0]));
}

TEST(RouterTest, FarOutScoresAreNumbers) {
  const float logits[] = {-1e4f, 1e4f, 0};
  for (const bool normalize : {false, true}) {
    int32_t chosen[3];
    float weights[3];
    const RouterShape shape = {
        .tokens = 1, .experts = 3, .top_k = 3, .scores = Scores::kSigmoid, .normalize = normalize};
    Route(shape, {.logits = logits, .chosen = chosen, .weights = weights});
    const float sum = normalize ? 1.5f : 1;
    EXPECT_FLOAT_EQ(weights[0], 1 / sum);
    EXPECT_FLOAT_EQ(weights[1], 0.5f / sum);
    EXPECT_EQ(weights[2], 0);
    const float ones[] = {1, 2, 3};
    float dlogits[3] = {kNan, kNan, kNan};
    RouterSums sums;
    RouteBackward<float>(shape, {.logits = logits,
                                 .chosen = chosen,
                                 .dweights = ones,
                                 .z = 1e-9f,
                                 .dlogits = dlogits,
                                 .sums = &sums});
    for (const float gradient : dlogits) EXPECT_TRUE(std::isfinite(gradient));
    EXPECT_TRUE(std::isfinite(sums.entropy));
    EXPECT_NEAR(sums.z, 0.1, 1e-6);
  }
}

TEST(RouterTest, CountsTokensThatHaveALabel) {
  // Tokens 3 … 8 of twelve in three runs; no token of run 2 is here but token 8.
  const RouterShape shape = {.tokens = 6, .experts = 3, .top_k = 2};
  const std::vector<int32_t> chosen = {0, 1, 2, 1, 0, 2, 1, 0, 1, 2, 2, 0};
  const std::vector<int32_t> labels = {5, 0, -1, 7, 7, -1};
  std::vector<float> counts(9, kNan);
  CountedTokens counted = {.labels = labels.data(), .first = 3, .run = 4, .runs = 3};
  CountChosen(shape, chosen.data(), counted, counts.data());
  EXPECT_EQ(counts, (std::vector<float>{1, 1, 0, 1, 3, 2, 0, 0, 0}));
  counted.labels = nullptr;
  CountChosen(shape, chosen.data(), counted, counts.data());
  EXPECT_EQ(counts, (std::vector<float>{1, 1, 0, 2, 3, 3, 1, 0, 1}));
}

TEST(RouterTest, LimitsAreOfAllTokensAndDropTheLast) {
  // Four experts have 3 · 8 choices of all ranks, so that each takes 6 of them.
  const RouterShape shape = {.tokens = 4, .experts = 4, .top_k = 2};
  const std::vector<int32_t> chosen = {0, 1, 0, 3, 0, 2, 1, 0};
  const std::vector<float> totals = {4, 1, 2, 1, 4, 2, 1, 1, 0, 3, 4, 1};
  std::vector<int32_t> placed(8, -1);
  ChoiceLimit limit = {.factor = 1, .end = 4, .totals = totals.data(), .ranks = 3, .rank = 1};
  LimitChosen(shape, chosen.data(), limit, placed.data());
  EXPECT_EQ(placed, (std::vector<int32_t>{0, 1, 0, 3, 4, 2, 1, 4}));
  // The last two tokens are the second part of this rank's; 1.2 · 6 choices round up to 8.
  const std::vector<float> parts = {3, 1, 0, 1, 1, 1, 1, 0};
  limit.factor = 1.2f;
  limit.first = 2;
  limit.parts = parts.data();
  limit.part = 1;
  placed.assign(8, -1);
  LimitChosen(shape, chosen.data(), limit, placed.data());
  EXPECT_EQ(placed, (std::vector<int32_t>{-1, -1, -1, -1, 0, 2, 1, 4}));
}

// However tokens are shared out, no expert has more than its limit, each drops its last choices,
// and all choices are kept or dropped.
TEST(RouterTest, RanksAndPartsLimitAsOneDoes) {
  std::mt19937 random(1);
  for (const float factor : {0.1f, 0.5f, 1.0f, 1.25f, 4.0f}) {
    for (const int64_t E : {2, 5, 8}) {
      const RouterShape all = {.tokens = 96, .experts = E, .top_k = 2};
      std::vector<float> logits(all.tokens * E);
      std::normal_distribution<float> normal;
      for (size_t i = 0; i < logits.size(); ++i) logits[i] = normal(random) + (i % E == 0 ? 1 : 0);
      std::vector<int32_t> chosen(all.rows()), placed(all.rows()), together(all.rows(), -1);
      std::vector<float> weights(all.rows()), total(E);
      Route(all, {.logits = logits.data(), .chosen = chosen.data(), .weights = weights.data()});
      CountChosen(all, chosen.data(), {.run = all.tokens, .runs = 1}, total.data());
      LimitChosen(all, chosen.data(), {.factor = factor, .end = all.tokens, .totals = total.data()},
                  placed.data());
      const auto most = static_cast<int64_t>(
          std::ceil(factor * static_cast<float>(all.rows()) / static_cast<float>(E)));
      for (int64_t e = 0; e < E; ++e) {
        EXPECT_EQ(std::count(placed.begin(), placed.end(), e),
                  std::min<int64_t>(most, static_cast<int64_t>(total[e])));
        const auto kept_last = std::find(placed.rbegin(), placed.rend(), e).base();
        for (auto at = placed.begin(); at != kept_last; ++at) {
          if (chosen[at - placed.begin()] == e) EXPECT_EQ(*at, e);
        }
      }
      // Four ranks with six parts of four tokens each.
      std::vector<float> totals(4 * E), parts(6 * E);
      const RouterShape own = {.tokens = 24, .experts = E, .top_k = 2};
      CountChosen(all, chosen.data(), {.run = 24, .runs = 4}, totals.data());
      for (int64_t rank = 0; rank < 4; ++rank) {
        const int32_t* const of_rank = chosen.data() + rank * own.rows();
        CountChosen(own, of_rank, {.run = 4, .runs = 6}, parts.data());
        for (int64_t part = 0; part < 6; ++part) {
          LimitChosen(own, of_rank,
                      {.factor = factor,
                       .first = 4 * part,
                       .end = 4 * part + 4,
                       .totals = totals.data(),
                       .ranks = 4,
                       .rank = rank,
                       .parts = parts.data(),
                       .part = part},
                      together.data() + rank * own.rows());
        }
      }
      EXPECT_EQ(together, placed) << factor << ", " << E;
    }
  }
}

TEST(RouterTest, WeightsOfDroppedChoicesHaveNoGradient) {
  for (const bool normalize : {false, true}) {
    const RouterShape shape = {.tokens = 2, .experts = 3, .top_k = 2, .normalize = normalize};
    const std::vector<float> logits = {0.5f, 1, -1, 0, 2, 1};
    const std::vector<int32_t> chosen = {1, 0, 1, 2}, placed = {1, 3, 3, 3};
    const std::vector<float> zeros = {0.7f, 0, 0, 0}, dweights = {0.7f, kNan, kNan, kNan};
    std::vector<float> expected(6), dlogits(6);
    RouteBackwardArrays arrays = {.logits = logits.data(),
                                  .chosen = chosen.data(),
                                  .dweights = zeros.data(),
                                  .dlogits = expected.data()};
    RouteBackward<float>(shape, arrays);
    arrays.dweights = dweights.data();
    arrays.placed = placed.data();
    arrays.dlogits = dlogits.data();
    RouteBackward<float>(shape, arrays);
    EXPECT_EQ(dlogits, expected);
  }
}

// A router's backward is the gradient of this: the weights times `dweights` and, `scale` times,
// both losses; the latter also into `sums`.
struct Losses {
  const RouterShape& shape;
  const std::vector<int32_t>& chosen;
  const std::vector<float>& dweights;
  CountedTokens counted;
  const std::vector<float>* counts;  // Null: no auxiliary loss.
  double auxiliary, z, scale;

  double operator()(const std::vector<double>& logits, RouterSums* sums = nullptr) const {
    const int64_t E = shape.experts, k = shape.top_k;
    double result = 0;
    RouterSums all;
    for (int64_t n = 0; n < shape.tokens; ++n) {
      const auto row = RowOf(logits, n, E);
      const auto s = ScoresOf(shape.scores, row);
      const std::vector<int32_t> of_token(chosen.begin() + n * k, chosen.begin() + (n + 1) * k);
      const auto weights = WeightsOf(shape, s, of_token);
      for (int64_t j = 0; j < k; ++j) {
        result += weights[j] * static_cast<double>(dweights[n * k + j]);
      }
      if (counted.labels != nullptr && counted.labels[n] < 0) continue;
      const double total =
          shape.scores == Scores::kSoftmax ? 1 : std::accumulate(s.begin(), s.end(), 0.0);
      all.tokens += 1;
      for (const double each : s) all.entropy -= each / total * std::log(each / total);
      all.z += z * LogSumExp(row) * LogSumExp(row);
      if (counts == nullptr) continue;
      const auto of_run = RowOf(*counts, (counted.first + n) / counted.run, E);
      const double sum = std::accumulate(of_run.begin(), of_run.end(), 0.0);
      for (int64_t e = 0; e < E; ++e) {
        all.auxiliary += auxiliary * static_cast<double>(E) * of_run[e] / sum * s[e] / total;
      }
    }
    if (sums != nullptr) *sums = all;
    return result + scale * (all.auxiliary + all.z);
  }
};

TEST(RouterTest, BackwardIsTheDifferenceAndSumsAreTheFormula) {
  for (RouterShape shape : Shapes()) {
    shape.tokens = std::min<int64_t>(shape.tokens, 13);
    const int64_t N = shape.tokens, E = shape.experts, k = shape.top_k;
    const auto logits = RandomArray(N * E, 3, -2, 2);
    const auto dweights = RandomArray(N * k, 4);
    std::vector<int32_t> labels(N, 3);
    if (N > 4) labels[1] = labels[4] = -1;
    std::vector<int32_t> chosen(N * k);
    std::vector<float> weights(N * k);
    Route(shape, {.logits = logits.data(), .chosen = chosen.data(), .weights = weights.data()});
    // The run begins before the first token.
    const CountedTokens counted = {.labels = labels.data(), .first = 2, .run = 5, .runs = 3};
    std::vector<float> counts(3 * E);
    CountChosen(shape, chosen.data(), counted, counts.data());
    // Counts of other ranks' tokens are among them.
    for (float& count : counts) count += 2;
    for (const bool with_losses : {false, true}) {
      const float z = with_losses ? 0.3f : 0, auxiliary = with_losses ? 0.7f : 0, scale = 1.5f;
      const Losses losses = {.shape = shape,
                             .chosen = chosen,
                             .dweights = dweights,
                             .counted = counted,
                             .counts = with_losses ? &counts : nullptr,
                             .auxiliary = auxiliary,
                             .z = z,
                             .scale = scale};
      std::vector<float> dlogits(N * E, kNan);
      RouterSums sums = {.auxiliary = 1, .z = 2, .entropy = 3, .tokens = 4};
      RouteBackward<float>(shape, {.logits = logits.data(),
                                   .chosen = chosen.data(),
                                   .dweights = dweights.data(),
                                   .counted = counted,
                                   .counts = with_losses ? counts.data() : nullptr,
                                   .auxiliary = auxiliary,
                                   .z = z,
                                   .gradient_scale = &scale,
                                   .dlogits = dlogits.data(),
                                   .sums = &sums});
      RouterSums wanted;
      losses(Doubles(logits), &wanted);
      EXPECT_NEAR(sums.auxiliary - 1, wanted.auxiliary, 1e-6 * (1 + wanted.auxiliary));
      EXPECT_NEAR(sums.z - 2, wanted.z, 1e-6 * (1 + wanted.z));
      EXPECT_NEAR(sums.entropy - 3, wanted.entropy, 1e-6 * (1 + wanted.entropy));
      EXPECT_EQ(sums.tokens - 4, wanted.tokens);
      const auto value = [&](const std::vector<double>& x) { return losses(x); };
      for (int64_t i = 0; i<N * E; i += E> 20 ? 7 : 1) {
        ASSERT_NEAR(dlogits[i], Difference(value, Doubles(logits), i), 5e-6)
            << i << " of " << N << " tokens, " << E << " experts";
      }
    }
  }
}

TEST(RouterTest, ARunOfWhichNothingWasCountedHasNoAuxiliaryLoss) {
  const float logits[] = {1, -1}, dweights[] = {0}, counts[] = {0, 0};
  const int32_t chosen[] = {0};
  float dlogits[] = {kNan, kNan};
  RouterSums sums;
  RouteBackward<float>({.tokens = 1, .experts = 2}, {.logits = logits,
                                                     .chosen = chosen,
                                                     .dweights = dweights,
                                                     .counted = {.run = 1, .runs = 1},
                                                     .counts = counts,
                                                     .auxiliary = 1,
                                                     .dlogits = dlogits,
                                                     .sums = &sums});
  EXPECT_EQ(dlogits[0], 0);
  EXPECT_EQ(dlogits[1], 0);
  EXPECT_EQ(sums.auxiliary, 0);
  EXPECT_EQ(sums.tokens, 1);
}

template <typename T>
class RouterTypesTest : public testing::Test {};
TYPED_TEST_SUITE(RouterTypesTest, KernelTypes);

TYPED_TEST(RouterTypesTest, GradientsAreRoundedOnceAndTheSameOnAnyThreads) {
  using T = TypeParam;
  const RouterShape shape = {.tokens = 1500, .experts = 20, .top_k = 3, .normalize = true};
  const int64_t N = shape.tokens, E = shape.experts;
  const auto logits = RandomArray(N * E, 5), dweights = RandomArray(N * 3, 6);
  std::vector<int32_t> chosen(N * 3);
  std::vector<float> weights(N * 3), counts(E, 1), exact(N * E);
  RouteArrays route = {.logits = logits.data(), .chosen = chosen.data(), .weights = weights.data()};
  Route(shape, route);
  RouteBackwardArrays arrays = {.logits = logits.data(),
                                .chosen = chosen.data(),
                                .dweights = dweights.data(),
                                .counted = {.run = N, .runs = 1},
                                .counts = counts.data(),
                                .auxiliary = 0.01f,
                                .z = 0.001f,
                                .dlogits = exact.data()};
  RouteBackward<float>(shape, arrays);
  ExpectSameBitsOnAnyThreads([&] {
    std::vector<int32_t> again(N * 3);
    route.chosen = again.data();
    Route(shape, route);
    EXPECT_TRUE(again == chosen);
    std::vector<T> dlogits(N * E);
    RouterSums sums;
    arrays.dlogits = dlogits.data();
    arrays.sums = &sums;
    RouteBackward<T>(shape, arrays);
    for (int64_t i = 0; i < N * E; ++i) EXPECT_TRUE(dlogits[i] == Rounded<T>(exact[i]));
    return std::pair(sums.auxiliary, std::pair(sums.z, sums.entropy));
  });
}

}  // namespace
}  // namespace muster
