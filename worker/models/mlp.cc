#include "worker/models/mlp.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "worker/models/checks.h"
#include "worker/models/regression.h"
#include "worker/nn/layers/heads.h"
#include "worker/nn/layers/perceptron.h"

namespace muster {
namespace {

struct MlpMicroBatch final : MicroBatch {
  // [B, F].
  std::vector<float> features;
  Perceptron::Activations activations;
};

class Mlp final : public Model, private UnitBoundaries {
 public:
  // Predicts a number by `regression`, if there is one, or else one of the classes.
  Mlp(int64_t features, std::vector<int64_t> hidden, int64_t classes,
      std::optional<RegressionHead> regression)
      : features_(features),
        classes_(classes),
        perceptron_({.in_features = features,
                     .hidden = std::move(hidden),
                     .out_features = regression ? 1 : classes,
                     .first_tensor = 0}),
        softmax_(classes),
        regression_(regression) {
    perceptron_.AppendTensors(description_.tensors);
    description_.units = perceptron_.units();
    description_.default_metric = regression_ ? "rmse" : "accuracy";
    description_.classes = regression_ ? 0 : classes;
  }

  const ModelDescription& description() const override { return description_; }

  std::unique_ptr<MicroBatch> NewMicroBatch() const override {
    return std::make_unique<MlpMicroBatch>();
  }

  const UnitBoundaries* boundaries() const override { return this; }

  absl::Status Load(const Batch& batch, MicroBatch& micro_batch) const override {
    MUSTER_RETURN_IF_ERROR(regression_ ? CheckTargets(batch) : CheckLabels(batch, classes_));
    MUSTER_RETURN_IF_ERROR(CheckDense(batch, features_));
    auto& m = static_cast<MlpMicroBatch&>(micro_batch);
    m.Start(batch);
    m.features = batch.dense;
    if (regression_) {
      m.scores.resize(batch.examples);
    } else {
      m.StartClasses(classes_);
    }
    perceptron_.Begin(batch.examples, m.activations);
    m.activations.in = m.features;
    return absl::OkStatus();
  }

  absl::Status Forward(const LayerContext& context, int unit, const ModelParameters& parameters,
                       MicroBatch& micro_batch) const override {
    auto& m = static_cast<MlpMicroBatch&>(micro_batch);
    MUSTER_RETURN_IF_ERROR(perceptron_.Forward(context, unit, parameters.values, m.activations));
    if (unit + 1 == perceptron_.units()) {
      const absl::Span<float> outputs = absl::MakeSpan(m.activations.out.back());
      const HeadResult result =
          regression_ ? regression_->Forward(context, m.targets, outputs, absl::MakeSpan(m.scores))
                      : softmax_.Forward(context, m.labels, outputs, m.class_predictions());
      m.loss_sum = result.loss_sum;
      m.correct = result.correct;
    }
    return absl::OkStatus();
  }

  absl::Status Backward(const LayerContext& context, int unit, const ModelParameters& parameters,
                        GradientSpans gradients, MicroBatch& micro_batch) const override {
    auto& m = static_cast<MlpMicroBatch&>(micro_batch);
    return perceptron_.Backward(context, unit, parameters.values, gradients, m.activations);
  }

 private:
  size_t Bytes(const LayerContext& context, int unit, const Batch& batch) const override {
    return batch.examples * perceptron_.OutWidth(context, unit) * sizeof(float);
  }

  absl::Status ReadOutput(const LayerContext& context, int unit, MicroBatch& micro_batch,
                          absl::Span<std::byte> to) const override {
    return Read(static_cast<MlpMicroBatch&>(micro_batch).activations.out[unit], to);
  }

  absl::Status SetOutput(const LayerContext& context, int unit, absl::Span<const std::byte> from,
                         MicroBatch& micro_batch) const override {
    return Set(from, static_cast<MlpMicroBatch&>(micro_batch).activations.out[unit]);
  }

  absl::Status ReadGradient(const LayerContext& context, int unit, MicroBatch& micro_batch,
                            absl::Span<std::byte> to) const override {
    return Read(static_cast<MlpMicroBatch&>(micro_batch).activations.out_gradient[unit], to);
  }

  absl::Status SetGradient(const LayerContext& context, int unit, absl::Span<const std::byte> from,
                           MicroBatch& micro_batch) const override {
    return Set(from, static_cast<MlpMicroBatch&>(micro_batch).activations.out_gradient[unit]);
  }

  static absl::Status Read(const std::vector<float>& values, absl::Span<std::byte> to) {
    if (!to.empty()) std::memcpy(to.data(), values.data(), to.size());
    return absl::OkStatus();
  }

  static absl::Status Set(absl::Span<const std::byte> from, std::vector<float>& values) {
    values.resize(from.size() / sizeof(float));
    if (!from.empty()) std::memcpy(values.data(), from.data(), from.size());
    return absl::OkStatus();
  }

  const int64_t features_;
  const int64_t classes_;
  const Perceptron perceptron_;
  const SoftmaxHead softmax_;
  const std::optional<RegressionHead> regression_;
  ModelDescription description_;  // Const after construction.
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> CreateMlp(const v1::MlpSpec& spec,
                                                       const DatasetInfo& data) {
  if (data.dense_features == 0 || data.sparse || data.vocabulary > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.mlp reads dense features alone, but the data have ", DescribeData(data),
                     "; use data of images or numeric columns, or another model (",
                     data.vocabulary > 0 ? "ngram" : "logistic_regression or deep_fm", ")."));
  }
  MUSTER_RETURN_IF_ERROR(CheckHidden("model.mlp.hidden", spec.hidden(), 0));
  const std::vector<int64_t> hidden(spec.hidden().begin(), spec.hidden().end());
  if (spec.has_regression()) {
    if (spec.classes() > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.mlp.classes is ", spec.classes(),
                       ", but model.mlp.regression predicts a number; leave one of them out."));
    }
    MUSTER_ASSIGN_OR_RETURN(const RegressionHead head,
                            CreateRegressionHead("model.mlp.regression", spec.regression(), data));
    return std::make_unique<Mlp>(data.dense_features, hidden, /*classes=*/0, head);
  }
  MUSTER_RETURN_IF_ERROR(CheckField("model.mlp.classes", spec.classes(), 2, kMaxWidth));
  MUSTER_RETURN_IF_ERROR(CheckClasses("model.mlp.classes", spec.classes(), data));
  return std::make_unique<Mlp>(data.dense_features, hidden, spec.classes(), std::nullopt);
}

}  // namespace muster
