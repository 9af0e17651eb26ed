#include "client/plan/effective_job.h"

#include <string>
#include <vector>

#include "client/plan/job_plans_for_testing.h"
#include "common/job/regression.h"
#include "common/job/validation/job_validator.h"
#include "common/job_text/fill_message.h"
#include "common/job_text/parse_yaml.h"
#include "common/job_text/print_yaml.h"
#include "common/optim/optimizer.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// A step of an optimizer from fixed numbers.
std::vector<float> StepOf(const v1::OptimizerSpec& spec) {
  const auto optimizer = CreateOptimizer(spec, Granularity::kRow);
  EXPECT_TRUE(optimizer.ok()) << spec.DebugString() << optimizer.status();
  if (!optimizer.ok()) return {};
  const std::vector<float> gradient = {0.5f, -1, 0, 1e-4f};
  std::vector<float> weights = {1, 2, -3, 0};
  std::vector<float> state((*optimizer)->state_floats(4));
  (*optimizer)->InitState(weights, absl::MakeSpan(state));
  for (uint64_t step = 1; step <= 3; ++step) {
    (*optimizer)
        ->Apply({.learning_rate = 0.1f, .step = step}, gradient, absl::MakeSpan(weights),
                absl::MakeSpan(state));
  }
  return weights;
}

TEST(EffectiveJobTest, TrainsAsTheJobThatItIsMadeOf) {
  for (const char* name : {"sgd", "momentum", "nesterov", "adagrad", "row_wise_adagrad", "rmsprop",
                           "adam", "adamw", "lion", "muon", "ftrl"}) {
    v1::JobSpec spec = Gpt();
    spec.mutable_optimizer()->set_name(name);
    const auto plan = PlanOf(spec);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const v1::JobSpec effective = EffectiveJob(*plan);
    EXPECT_TRUE(ValidateJob(effective).ok()) << ValidateJob(effective);
    std::vector<const google::protobuf::FieldDescriptor*> options;
    effective.optimizer().GetReflection()->ListFields(effective.optimizer(), &options);
    // Its name and its rate, and one option at least.
    EXPECT_GT(options.size(), 2) << name;
    EXPECT_EQ(StepOf(effective.optimizer()), StepOf(spec.optimizer())) << name;
  }
}

TEST(EffectiveJobTest, HasTheValuesThatLeftOutFieldsStandFor) {
  v1::JobSpec spec = Gpt();
  spec.mutable_optimizer()->set_beta1(0.5f);
  const auto plan = PlanOf(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const v1::JobSpec effective = EffectiveJob(*plan);
  EXPECT_EQ(effective.optimizer().beta1(), 0.5f);
  EXPECT_EQ(effective.optimizer().beta2(), 0.999f);
  EXPECT_EQ(effective.model().transformer().feed_forward(), 256);
  EXPECT_EQ(effective.model().transformer().vocabulary(), 256);
  EXPECT_EQ(effective.update().dense(), v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_EQ(effective.update().block_bytes(), 1 << 20);
  EXPECT_EQ(effective.checkpoint().keep(), 2);
  const std::string yaml = PrintYaml(effective);
  const auto root = ParseYaml(yaml, "job");
  ASSERT_TRUE(root.ok()) << root.status();
  v1::JobSpec read;
  ASSERT_TRUE(FillMessage(*root, "job", read).ok()) << yaml;
  EXPECT_EQ(read.DebugString(), effective.DebugString());
}

TEST(EffectiveJobTest, HasTheLossOfARegression) {
  const std::string data =
      " data { csv { path: 'p' label: 'y' numeric: 'x' categorical: 'c' } } "
      "optimizer { name: 'sgd' learning_rate: 0.1 } batch_size: 8";
  const auto loss_of = [&](const std::string& model) {
    const auto plan = PlanOf(Job("model { " + model + " }" + data));
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *RegressionOf(EffectiveJob(*plan).model());
  };
  for (const char* model : {"linear_regression {}", "mlp { hidden: 4 regression {} }",
                            "deep_fm { embedding_dim: 2 hidden: 4 regression {} }"}) {
    EXPECT_EQ(loss_of(model).loss(), v1::RegressionSpec::SQUARED) << model;
    EXPECT_EQ(loss_of(model).huber_delta(), 0) << model;
  }
  EXPECT_EQ(loss_of("linear_regression { loss: HUBER }").huber_delta(), 1);
  EXPECT_EQ(loss_of("linear_regression { loss: HUBER huber_delta: 2 }").huber_delta(), 2);
}

}  // namespace
}  // namespace muster
