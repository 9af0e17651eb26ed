#include "worker/models/linear_model.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "worker/models/checks.h"
#include "worker/models/regression.h"
#include "worker/nn/layers/bias_layer.h"
#include "worker/nn/layers/heads.h"
#include "worker/nn/layers/key_deduplicator.h"
#include "worker/nn/layers/linear_layer.h"
#include "worker/nn/layers/sparse_linear.h"

namespace muster {
namespace {

struct LinearMicroBatch final : MicroBatch {
  KeyDeduplicator deduplicator;
  // Of the sparse features: [B + 1] and [uses].
  std::vector<int64_t> offsets;
  std::vector<float> values;
  // [B, F].
  std::vector<float> dense;
  // [B, outputs]: after the forward pass, the gradient of the outputs.
  std::vector<float> outputs;
};

class LinearModel final : public Model {
 public:
  // Predicts a number by `regression`, if there is one, or else one of the classes. `data` has
  // sparse features, dense ones, or both.
  LinearModel(int64_t classes, std::optional<RegressionHead> regression, const DatasetInfo& data)
      : classes_(classes),
        outputs_(regression || classes == 2 ? 1 : classes),
        dense_features_(data.dense_features),
        has_sparse_(data.sparse),
        sparse_({.row_dim = outputs_, .width = outputs_}),
        dense_(dense_features_, outputs_, {.init = LinearLayer::Init::kZero, .bias = false}),
        bias_(outputs_),
        softmax_(classes),
        regression_(regression) {
    bias_.AppendTensors("bias", 0, description_.tensors);
    if (dense_features_ > 0) dense_.AppendTensors("dense", 0, description_.tensors);
    if (has_sparse_) {
      description_.sparse_tables.push_back(
          {.name = "weights", .dim = static_cast<uint32_t>(outputs_), .initializer = {}});
    }
    description_.units = 1;
    description_.default_metric = regression_ ? "rmse" : "accuracy";
    description_.classes = regression_ ? 0 : classes;
  }

  const ModelDescription& description() const override { return description_; }

  std::unique_ptr<MicroBatch> NewMicroBatch() const override {
    auto micro_batch = std::make_unique<LinearMicroBatch>();
    micro_batch->sparse.resize(description_.sparse_tables.size());
    return micro_batch;
  }

  absl::Status Load(const Batch& batch, MicroBatch& micro_batch) const override {
    MUSTER_RETURN_IF_ERROR(regression_ ? CheckTargets(batch) : CheckLabels(batch, classes_));
    MUSTER_RETURN_IF_ERROR(CheckDense(batch, dense_features_));
    if (has_sparse_) MUSTER_RETURN_IF_ERROR(CheckSparse(batch));
    auto& m = static_cast<LinearMicroBatch&>(micro_batch);
    m.Start(batch);
    m.dense = batch.dense;
    if (has_sparse_) {
      m.offsets = batch.offsets;
      m.values = batch.values;
      m.deduplicator.Build(batch.keys, m.sparse[0].keys, m.sparse[0].inverse);
      m.sparse[0].rows.resize(m.sparse[0].keys.size() * outputs_);
    }
    m.outputs.resize(batch.examples * outputs_);
    if (regression_) {
      m.scores.resize(batch.examples);
    } else {
      m.StartClasses(classes_);
    }
    return absl::OkStatus();
  }

  absl::Status Forward(const LayerContext& context, int unit, const ModelParameters& parameters,
                       MicroBatch& micro_batch) const override {
    auto& m = static_cast<LinearMicroBatch&>(micro_batch);
    const absl::Span<float> outputs = absl::MakeSpan(m.outputs);
    if (dense_features_ > 0) {
      dense_.Forward(context, parameters.values.subspan(kDense, 1), m.dense, outputs);
    } else {
      std::fill(outputs.begin(), outputs.end(), 0.0f);
    }
    if (has_sparse_) {
      sparse_.Forward(context, {.offsets = m.offsets, .values = m.values}, m.sparse[0], outputs);
    }
    bias_.Forward(context, parameters.values.subspan(kBias, 1), outputs, outputs);
    const HeadResult result = RunHead(context, outputs, m);
    m.loss_sum = result.loss_sum;
    m.correct = result.correct;
    return absl::OkStatus();
  }

  absl::Status Backward(const LayerContext& context, int unit, const ModelParameters& parameters,
                        GradientSpans gradients, MicroBatch& micro_batch) const override {
    auto& m = static_cast<LinearMicroBatch&>(micro_batch);
    const BackwardInputs inputs = {.in = m.dense, .out = {}, .out_gradient = m.outputs};
    bias_.BackwardWeights(context, inputs, gradients.subspan(kBias, 1));
    if (dense_features_ > 0) {
      dense_.BackwardWeights(context, inputs, gradients.subspan(kDense, 1));
    }
    if (has_sparse_) {
      m.sparse[0].gradients.assign(m.sparse[0].rows.size(), 0);
      sparse_.BackwardRows(context, {.offsets = m.offsets, .values = m.values}, m.outputs,
                           m.sparse[0]);
    }
    return absl::OkStatus();
  }

 private:
  // Replaces the outputs by their gradient.
  HeadResult RunHead(const LayerContext& context, absl::Span<float> outputs,
                     LinearMicroBatch& m) const {
    if (regression_) {
      return regression_->Forward(context, m.targets, outputs, absl::MakeSpan(m.scores));
    }
    return classes_ == 2 ? logistic_.Forward(context, m.labels, outputs, m.class_predictions())
                         : softmax_.Forward(context, m.labels, outputs, m.class_predictions());
  }

  // Tensors.
  static constexpr int kBias = 0;
  static constexpr int kDense = 1;

  const int64_t classes_;
  const int64_t outputs_;
  const int64_t dense_features_;
  const bool has_sparse_;
  const SparseLinear sparse_;
  const LinearLayer dense_;
  const BiasLayer bias_;
  const SoftmaxHead softmax_;
  const LogisticHead logistic_{};
  const std::optional<RegressionHead> regression_;
  ModelDescription description_;  // Const after construction.
};

// `name` is the model's.
absl::Status CheckFeatures(absl::string_view name, const DatasetInfo& data) {
  if ((data.sparse || data.dense_features > 0) && data.vocabulary == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.", name, " reads sparse or dense features, but the data have ",
                   DescribeData(data), "; use libsvm, CSV or click-log data, or another model",
                   data.vocabulary > 0 ? " (ngram)." : "."));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> CreateLogisticRegression(
    const v1::LogisticRegressionSpec& spec, const DatasetInfo& data) {
  MUSTER_RETURN_IF_ERROR(CheckFeatures("logistic_regression", data));
  const uint64_t classes = spec.classes() == 0 ? 2 : spec.classes();
  MUSTER_RETURN_IF_ERROR(CheckField("model.logistic_regression.classes", classes, 2, kMaxWidth));
  MUSTER_RETURN_IF_ERROR(CheckClasses("model.logistic_regression.classes", classes, data));
  return std::make_unique<LinearModel>(classes, std::nullopt, data);
}

absl::StatusOr<std::unique_ptr<const Model>> CreateLinearRegression(const v1::RegressionSpec& spec,
                                                                    const DatasetInfo& data) {
  MUSTER_RETURN_IF_ERROR(CheckFeatures("linear_regression", data));
  MUSTER_ASSIGN_OR_RETURN(const RegressionHead head,
                          CreateRegressionHead("model.linear_regression", spec, data));
  return std::make_unique<LinearModel>(/*classes=*/0, head, data);
}

}  // namespace muster
