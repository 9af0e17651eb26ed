#include "common/optim/optimizer_test_lib.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr int kSteps = 25;
// Spans start one float into their arrays, so that they are aligned to 4 bytes only.
constexpr size_t kShift = 1;

struct Variant {
  const char* name;
  float scale;
  float clip_value;
  bool regularise;
};

constexpr float kNoLimit = std::numeric_limits<float>::infinity();
constexpr Variant kVariants[] = {
    {"plain", 1, kNoLimit, true},
    {"scaled", 0.125f, kNoLimit, true},
    {"limited", 2, 0.75f, true},
    {"unregularised", 1, kNoLimit, false},
};

v1::OptimizerSpec Parse(const std::string& text) {
  v1::OptimizerSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

void RunVariant(const FormulaCheck& check, const Variant& variant, size_t n) {
  const std::unique_ptr<const Optimizer> optimizer = MakeOptimizer(check.spec);
  const size_t arrays = check.first_state.size();
  ASSERT_EQ(optimizer->state_names().size(), arrays);
  ASSERT_EQ(optimizer->state_floats(n), arrays * n);

  std::mt19937 random(n);
  std::uniform_real_distribution<float> unit(-1, 1);
  std::vector<float> gradient(kShift + n), weights(kShift + n), state(kShift + arrays * n, -7);
  const auto weight_span = absl::MakeSpan(weights).subspan(kShift);
  const auto state_span = absl::MakeSpan(state).subspan(kShift);
  std::vector<double> expected_weights(n);
  std::vector<std::vector<double>> expected_state(n, check.first_state);
  for (size_t i = 0; i < n; ++i) {
    weight_span[i] = check.initial_weight * unit(random);
    expected_weights[i] = weight_span[i];
  }
  optimizer->InitState(weight_span, state_span);
  for (size_t i = 0; i < n; ++i) {
    for (size_t s = 0; s < arrays; ++s) {
      ASSERT_EQ(state_span[s * n + i], static_cast<float>(check.first_state[s]));
    }
  }

  for (int t = 1; t <= kSteps; ++t) {
    OptimizerStep step;
    step.learning_rate = check.vary_learning_rate ? 0.1f / t : 0.1f;
    step.step = t;
    step.gradient_scale = variant.scale;
    step.clip_value = variant.clip_value;
    step.weight_decay = variant.regularise;
    for (size_t i = 0; i < n; ++i) {
      gradient[kShift + i] = unit(random);
      const double used = std::clamp(double{gradient[kShift + i]} * variant.scale,
                                     -double{variant.clip_value}, double{variant.clip_value});
      check.formula({step.learning_rate, static_cast<uint64_t>(t), used, variant.regularise},
                    expected_weights[i], expected_state[i]);
    }
    optimizer->Apply(step, absl::MakeConstSpan(gradient).subspan(kShift), weight_span, state_span);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_NEAR(weight_span[i], expected_weights[i], 2e-6 * (1 + std::fabs(expected_weights[i])))
          << "weight " << i << " of " << n << " after step " << t;
      for (size_t s = 0; s < arrays; ++s) {
        const double expected = expected_state[i][s];
        ASSERT_NEAR(state_span[s * n + i], expected, 4e-6 * (1 + std::fabs(expected)))
            << "state " << optimizer->state_names()[s] << " of weight " << i << " after step " << t;
      }
    }
  }
  // The float before each span belongs to someone else.
  EXPECT_EQ(weights[0], 0);
  EXPECT_EQ(state[0], -7);
}

}  // namespace

std::unique_ptr<const Optimizer> MakeOptimizer(const std::string& spec, Granularity granularity) {
  auto optimizer = CreateOptimizer(Parse(spec), granularity);
  EXPECT_TRUE(optimizer.ok()) << optimizer.status();
  return *std::move(optimizer);
}

absl::Status OptimizerError(const std::string& spec) {
  return CreateOptimizer(Parse(spec), Granularity::kElements).status();
}

void ExpectFollowsFormula(const FormulaCheck& check) {
  for (const Variant& variant : kVariants) {
    for (size_t n : {0, 1, 7, 16, 33, 1000}) {
      SCOPED_TRACE(absl::StrCat(check.spec, ", ", variant.name));
      RunVariant(check, variant, n);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace muster
