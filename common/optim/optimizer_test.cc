#include "common/optim/optimizer.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/optim/optimizer_test_lib.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// What holds for every optimizer.
class AnyOptimizerTest : public testing::TestWithParam<std::string> {
 protected:
  std::string Spec() const { return absl::StrCat("name: '", GetParam(), "' learning_rate: 0.1"); }

  struct Parameters {
    std::vector<float> weights;
    std::vector<float> state;

    bool operator==(const Parameters&) const = default;
  };

  Parameters Start(const Optimizer& optimizer, size_t n) {
    Parameters parameters = {std::vector<float>(n, 0.5f),
                             std::vector<float>(optimizer.state_floats(n))};
    optimizer.InitState(parameters.weights, absl::MakeSpan(parameters.state));
    return parameters;
  }
};

TEST_P(AnyOptimizerTest, GoesDownAParabola) {
  const auto optimizer = MakeOptimizer(Spec());
  Parameters parameters = Start(*optimizer, 3);
  for (int t = 1; t <= 400; ++t) {
    // Of Σ (w - 0.25)² / 2.
    std::vector<float> gradient;
    for (float w : parameters.weights) gradient.push_back(w - 0.25f);
    optimizer->Apply({.learning_rate = 0.05f, .step = static_cast<uint64_t>(t)}, gradient,
                     absl::MakeSpan(parameters.weights), absl::MakeSpan(parameters.state));
  }
  // Lion goes on around the minimum by steps as long as the rate.
  for (float w : parameters.weights) EXPECT_NEAR(w, 0.25f, 0.051f);
}

// A group's weight decay is the option, for tensors that otherwise have none, too.
TEST_P(AnyOptimizerTest, OwnWeightDecayTakesTheOptionsPlace) {
  if (GetParam() == "ftrl") GTEST_SKIP() << "ftrl has no weight decay";
  const auto option = MakeOptimizer(Spec() + " weight_decay: 0.25");
  const auto own = MakeOptimizer(Spec() + " weight_decay: 0.5");
  Parameters a = Start(*option, 3), b = Start(*own, 3);
  const std::vector<float> gradient = {0.25f, -1, 0};
  option->Apply({.learning_rate = 0.1f}, gradient, absl::MakeSpan(a.weights),
                absl::MakeSpan(a.state));
  own->Apply({.learning_rate = 0.1f, .weight_decay = false, .own_weight_decay = 0.25f}, gradient,
             absl::MakeSpan(b.weights), absl::MakeSpan(b.state));
  EXPECT_EQ(a, b);
}

TEST_P(AnyOptimizerTest, DivisionIntoCallsDoesNotMatter) {
  const auto optimizer = MakeOptimizer(Spec());
  constexpr size_t kCount = 53, kCut = 18;
  std::vector<float> gradient(kCount);
  for (size_t i = 0; i < kCount; ++i) gradient[i] = std::sin(i + 1.0f);

  Parameters whole = Start(*optimizer, kCount);
  Parameters left = Start(*optimizer, kCut);
  Parameters right = Start(*optimizer, kCount - kCut);
  for (uint64_t t = 1; t <= 3; ++t) {
    const OptimizerStep step = {.learning_rate = 0.1f, .step = t, .gradient_scale = 0.3f};
    optimizer->Apply(step, gradient, absl::MakeSpan(whole.weights), absl::MakeSpan(whole.state));
    optimizer->Apply(step, absl::MakeConstSpan(gradient).first(kCut), absl::MakeSpan(left.weights),
                     absl::MakeSpan(left.state));
    optimizer->Apply(step, absl::MakeConstSpan(gradient).subspan(kCut),
                     absl::MakeSpan(right.weights), absl::MakeSpan(right.state));
  }
  std::vector<float> joined = left.weights;
  joined.insert(joined.end(), right.weights.begin(), right.weights.end());
  EXPECT_EQ(joined, whole.weights);
}

TEST_P(AnyOptimizerTest, NanReachesItsWeightAndNoOther) {
  const auto optimizer = MakeOptimizer(Spec());
  Parameters parameters = Start(*optimizer, 40);
  std::vector<float> gradient(40, 0.1f);
  gradient[21] = std::numeric_limits<float>::quiet_NaN();
  optimizer->Apply({.learning_rate = 0.1f, .clip_value = 1}, gradient,
                   absl::MakeSpan(parameters.weights), absl::MakeSpan(parameters.state));
  for (size_t i = 0; i < 40; ++i) EXPECT_EQ(std::isnan(parameters.weights[i]), i == 21) << i;
}

TEST_P(AnyOptimizerTest, LimitTamesInfiniteGradients) {
  const auto optimizer = MakeOptimizer(Spec());
  Parameters infinite = Start(*optimizer, 20);
  Parameters limited = Start(*optimizer, 20);
  const float infinity = std::numeric_limits<float>::infinity();
  const OptimizerStep step = {.learning_rate = 0.1f, .clip_value = 2};
  optimizer->Apply(step, std::vector<float>(20, -infinity), absl::MakeSpan(infinite.weights),
                   absl::MakeSpan(infinite.state));
  optimizer->Apply(step, std::vector<float>(20, -2.0f), absl::MakeSpan(limited.weights),
                   absl::MakeSpan(limited.state));
  EXPECT_EQ(infinite, limited);
}

TEST_P(AnyOptimizerTest, DecayingStateNeverBecomesSubnormal) {
  const auto optimizer = MakeOptimizer(Spec());
  Parameters parameters = Start(*optimizer, 20);
  std::vector<float> gradient(20, 1e-18f);
  for (uint64_t t = 1; t <= 3000; ++t) {
    optimizer->Apply({.learning_rate = 0.1f, .step = t}, gradient,
                     absl::MakeSpan(parameters.weights), absl::MakeSpan(parameters.state));
    gradient.assign(20, 0.0f);
  }
  for (float s : parameters.state) EXPECT_TRUE(s == 0 || std::isnormal(s)) << s;
}

INSTANTIATE_TEST_SUITE_P(All, AnyOptimizerTest,
                         testing::Values("sgd", "momentum", "nesterov", "adagrad",
                                         "row_wise_adagrad", "rmsprop", "adam", "adamw", "lion",
                                         "ftrl"),
                         [](const auto& info) { return info.param; });

struct BadOptimizer {
  std::string spec;
  std::vector<std::string> message;
};

class OptimizerErrorTest : public testing::TestWithParam<BadOptimizer> {};

TEST_P(OptimizerErrorTest, NamesFieldValueAndRemedy) {
  const absl::Status status = OptimizerError(GetParam().spec);
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << GetParam().spec;
  for (const std::string& part : GetParam().message) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OptimizerErrorTest,
    testing::Values(
        BadOptimizer{"name: 'sdg' learning_rate: 1", {"name is \"sdg\"", "one of sgd, momentum"}},
        BadOptimizer{"learning_rate: 1", {"name is \"\"", "ftrl"}},
        BadOptimizer{"name: 'sgd'", {"learning_rate is 0", "above 0"}},
        BadOptimizer{"name: 'sgd' learning_rate: -1", {"learning_rate is -1"}},
        BadOptimizer{"name: 'sgd' learning_rate: nan", {"learning_rate is nan"}},
        BadOptimizer{"name: 'sgd' learning_rate: inf", {"learning_rate is inf", "finite"}},
        BadOptimizer{"name: 'sgd' learning_rate: 1 momentum: 0.9",
                     {"momentum is 0.9", "sgd has no such option", "weight_decay"}},
        BadOptimizer{"name: 'momentum' learning_rate: 1 momentum: 1", {"momentum is 1", "[0, 1)"}},
        BadOptimizer{"name: 'momentum' learning_rate: 1 momentum: nan", {"momentum is nan"}},
        BadOptimizer{"name: 'nesterov' learning_rate: 1 beta1: 0.9", {"beta1 is 0.9", "nesterov"}},
        BadOptimizer{"name: 'adam' learning_rate: 1 beta1: 1", {"beta1 is 1", "for adam"}},
        BadOptimizer{"name: 'adam' learning_rate: 1 beta2: -0.1", {"beta2 is -0.1"}},
        BadOptimizer{"name: 'adam' learning_rate: 1 epsilon: 0", {"epsilon is 0", "above 0"}},
        BadOptimizer{"name: 'adamw' learning_rate: 1 weight_decay: -1", {"weight_decay is -1"}},
        BadOptimizer{"name: 'adagrad' learning_rate: 1 decay: 0.5",
                     {"decay is 0.5", "no such option"}},
        BadOptimizer{"name: 'adagrad' learning_rate: 1 initial_accumulator: -1",
                     {"initial_accumulator is -1", "at least 0"}},
        BadOptimizer{"name: 'row_wise_adagrad' learning_rate: 1 l2: 1",
                     {"l2 is 1", "no such option"}},
        BadOptimizer{"name: 'rmsprop' learning_rate: 1 decay: 1", {"decay is 1"}},
        BadOptimizer{"name: 'lion' learning_rate: 1 epsilon: 1e-8",
                     {"epsilon is 1e-08", "lion has no such option", "beta1, beta2"}},
        BadOptimizer{"name: 'ftrl' learning_rate: 1 l1: -1", {"l1 is -1"}},
        BadOptimizer{"name: 'ftrl' learning_rate: 1 beta: inf", {"beta is inf"}},
        BadOptimizer{"name: 'ftrl' learning_rate: 1 weight_decay: 0.1",
                     {"weight_decay is 0.1", "ftrl has no such option", "l1, l2"}}));

TEST(OptimizerTest, OptionsAtTheirLimitsAreAccepted) {
  EXPECT_TRUE(OptimizerError("name: 'momentum' learning_rate: 1 momentum: 0 weight_decay: 0").ok());
  EXPECT_TRUE(OptimizerError("name: 'ftrl' learning_rate: 1 beta: 0 l1: 0 l2: 0").ok());
}

}  // namespace
}  // namespace muster
