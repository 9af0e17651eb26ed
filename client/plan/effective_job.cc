#include "client/plan/effective_job.h"

#include <string>

#include "common/model_files/transformer_layout.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace muster {
namespace {

// Defaults that common/optim/optimizer.h documents; a test compares the steps that they make.
constexpr struct {
  const char* optimizer;
  const char* option;
  float value;
} kOptimizerDefaults[] = {
    {"sgd", "weight_decay", 0},
    {"momentum", "momentum", 0.9f},
    {"momentum", "weight_decay", 0},
    {"nesterov", "momentum", 0.9f},
    {"nesterov", "weight_decay", 0},
    {"adagrad", "epsilon", 1e-10f},
    {"adagrad", "initial_accumulator", 0},
    {"adagrad", "weight_decay", 0},
    {"row_wise_adagrad", "epsilon", 1e-10f},
    {"row_wise_adagrad", "initial_accumulator", 0},
    {"row_wise_adagrad", "weight_decay", 0},
    {"rmsprop", "decay", 0.9f},
    {"rmsprop", "epsilon", 1e-8f},
    {"rmsprop", "weight_decay", 0},
    {"adam", "beta1", 0.9f},
    {"adam", "beta2", 0.999f},
    {"adam", "epsilon", 1e-8f},
    {"adam", "weight_decay", 0},
    {"adamw", "beta1", 0.9f},
    {"adamw", "beta2", 0.999f},
    {"adamw", "epsilon", 1e-8f},
    {"adamw", "weight_decay", 0.01f},
    {"lion", "beta1", 0.9f},
    {"lion", "beta2", 0.99f},
    {"lion", "weight_decay", 0},
    {"muon", "momentum", 0.95f},
    {"muon", "beta1", 0.9f},
    {"muon", "beta2", 0.999f},
    {"muon", "epsilon", 1e-8f},
    {"muon", "weight_decay", 0.01f},
    {"ftrl", "beta", 1},
    {"ftrl", "l1", 0},
    {"ftrl", "l2", 0},
    {"ftrl", "initial_accumulator", 0},
};

void FillOptimizerDefaults(v1::OptimizerSpec& spec) {
  const google::protobuf::Reflection& reflection = *spec.GetReflection();
  for (const auto& each : kOptimizerDefaults) {
    if (spec.name() != each.optimizer) continue;
    const google::protobuf::FieldDescriptor* const field =
        v1::OptimizerSpec::descriptor()->FindFieldByName(each.option);
    if (!reflection.HasField(spec, field)) reflection.SetFloat(&spec, field, each.value);
  }
}

void FillRegressionDefaults(v1::RegressionSpec& spec) {
  if (spec.loss() == v1::RegressionSpec::LOSS_UNSPECIFIED) {
    spec.set_loss(v1::RegressionSpec::SQUARED);
  }
  if (spec.loss() == v1::RegressionSpec::HUBER && spec.huber_delta() == 0) spec.set_huber_delta(1);
}

}  // namespace

v1::JobSpec EffectiveJob(const JobPlan& plan) {
  v1::JobSpec spec = plan.spec;
  FillOptimizerDefaults(*spec.mutable_optimizer());
  if (spec.model().has_transformer()) {
    FillTransformerDefaults(static_cast<int64_t>(plan.data.vocabulary),
                            *spec.mutable_model()->mutable_transformer());
  }
  if (spec.model().has_logistic_regression() && spec.model().logistic_regression().classes() == 0) {
    spec.mutable_model()->mutable_logistic_regression()->set_classes(2);
  }
  v1::ModelSpec& model = *spec.mutable_model();
  if (model.has_linear_regression()) FillRegressionDefaults(*model.mutable_linear_regression());
  if (model.mlp().has_regression()) {
    FillRegressionDefaults(*model.mutable_mlp()->mutable_regression());
  }
  if (model.deep_fm().has_regression()) {
    FillRegressionDefaults(*model.mutable_deep_fm()->mutable_regression());
  }
  if (spec.schedule().name().empty()) spec.mutable_schedule()->set_name("constant");
  return spec;
}

}  // namespace muster
