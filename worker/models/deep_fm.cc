#include "worker/models/deep_fm.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kernels/elementwise.h"
#include "proto/job.pb.h"
#include "worker/models/checks.h"
#include "worker/models/regression.h"
#include "worker/nn/layers/embedding_join.h"
#include "worker/nn/layers/factorization_machine_layer.h"
#include "worker/nn/layers/heads.h"
#include "worker/nn/layers/key_deduplicator.h"
#include "worker/nn/layers/perceptron.h"
#include "worker/nn/layers/sparse_linear.h"

namespace muster {
namespace {

// Values that were never trained should hardly move a logit.
constexpr float kDeepFmEmbeddingScale = 0.01f;

struct DeepFmMicroBatch final : MicroBatch {
  KeyDeduplicator deduplicator;
  // The categorical features: [B + 1] and [B * fields].
  std::vector<int64_t> offsets;
  std::vector<float> values;
  // [B, numeric].
  std::vector<float> numeric;
  // [B, fields * dim + numeric]: the vectors and then the numeric features; and the gradient.
  std::vector<float> joined;
  std::vector<float> joined_gradient;
  // [B]: parts of the logit.
  std::vector<float> first_order;
  std::vector<float> second_order;
  Perceptron::Activations activations;
};

class DeepFm final : public Model {
 public:
  struct Shape {
    int64_t fields = 0;
    int64_t numeric = 0;
    int64_t dim = 0;
    std::vector<int64_t> hidden;

    int64_t joined() const { return fields * dim + numeric; }
    // A row holds the first-order weight, then the vector.
    int64_t row_dim() const { return 1 + dim; }
  };

  // Predicts a number by `regression`, if there is one, or else the probability of class 1.
  DeepFm(const Shape& shape, std::optional<RegressionHead> regression)
      : shape_(shape),
        numeric_(shape.numeric, 1, {.init = LinearLayer::Init::kZero, .bias = false}),
        first_order_({.row_dim = shape.row_dim(), .width = 1}),
        join_({.lookups = shape.fields,
               .row_dim = shape.row_dim(),
               .column = 1,
               .width = shape.dim,
               .out_features = shape.joined()}),
        machine_({.fields = shape.fields, .dim = shape.dim, .others = shape.numeric}),
        perceptron_({.in_features = shape.joined(),
                     .hidden = shape.hidden,
                     .out_features = 1,
                     .first_tensor = shape.numeric > 0 ? 1 : 0}),
        regression_(regression) {
    if (shape_.numeric > 0) numeric_.AppendTensors("numeric", 0, description_.tensors);
    perceptron_.AppendTensors(description_.tensors);
    description_.sparse_tables.push_back(
        {.name = "embedding",
         .dim = static_cast<uint32_t>(shape.row_dim()),
         .initializer = {.kind = Initializer::Kind::kUniform, .scale = kDeepFmEmbeddingScale}});
    description_.units = perceptron_.units();
    description_.default_metric = regression_ ? "rmse" : "auc";
    description_.classes = regression_ ? 0 : 2;
  }

  const ModelDescription& description() const override { return description_; }

  std::unique_ptr<MicroBatch> NewMicroBatch() const override {
    auto micro_batch = std::make_unique<DeepFmMicroBatch>();
    micro_batch->sparse.resize(1);
    return micro_batch;
  }

  absl::Status Load(const Batch& batch, MicroBatch& micro_batch) const override {
    MUSTER_RETURN_IF_ERROR(regression_ ? CheckTargets(batch) : CheckLabels(batch, 2));
    MUSTER_RETURN_IF_ERROR(CheckDense(batch, shape_.numeric));
    MUSTER_RETURN_IF_ERROR(CheckSparse(batch));
    MUSTER_RETURN_IF_ERROR(CheckFields(batch));
    auto& m = static_cast<DeepFmMicroBatch&>(micro_batch);
    m.Start(batch);
    m.offsets = batch.offsets;
    m.values = batch.values;
    m.numeric = batch.dense;
    m.deduplicator.Build(batch.keys, m.sparse[0].keys, m.sparse[0].inverse);
    m.sparse[0].rows.resize(m.sparse[0].keys.size() * shape_.row_dim());
    const int64_t B = batch.examples;
    m.joined.resize(B * shape_.joined());
    m.joined_gradient.resize(m.joined.size());
    for (int64_t i = 0; i < B; ++i) {
      std::copy_n(batch.dense.begin() + i * shape_.numeric, shape_.numeric,
                  m.joined.begin() + i * shape_.joined() + shape_.fields * shape_.dim);
    }
    m.first_order.resize(B);
    m.second_order.resize(B);
    if (regression_) {
      m.scores.resize(B);
    } else {
      m.StartClasses(2);
    }
    perceptron_.Begin(B, m.activations);
    m.activations.in = m.joined;
    m.activations.in_gradient = absl::MakeSpan(m.joined_gradient);
    return absl::OkStatus();
  }

  absl::Status Forward(const LayerContext& context, int unit, const ModelParameters& parameters,
                       MicroBatch& micro_batch) const override {
    auto& m = static_cast<DeepFmMicroBatch&>(micro_batch);
    if (unit == 0) ForwardMachine(context, parameters.values, m);
    MUSTER_RETURN_IF_ERROR(perceptron_.Forward(context, unit, parameters.values, m.activations));
    if (unit + 1 == perceptron_.units()) {
      std::vector<float>& logits = m.activations.out.back();
      AddScaled(logits.size(), 1, m.first_order.data(), logits.data());
      AddScaled(logits.size(), 1, m.second_order.data(), logits.data());
      const absl::Span<float> outputs = absl::MakeSpan(logits);
      const HeadResult result =
          regression_ ? regression_->Forward(context, m.targets, outputs, absl::MakeSpan(m.scores))
                      : logistic_.Forward(context, m.labels, outputs, m.class_predictions());
      m.loss_sum = result.loss_sum;
      m.correct = result.correct;
    }
    return absl::OkStatus();
  }

  absl::Status Backward(const LayerContext& context, int unit, const ModelParameters& parameters,
                        GradientSpans gradients, MicroBatch& micro_batch) const override {
    auto& m = static_cast<DeepFmMicroBatch&>(micro_batch);
    MUSTER_RETURN_IF_ERROR(
        perceptron_.Backward(context, unit, parameters.values, gradients, m.activations));
    if (unit == 0) BackwardMachine(context, gradients, m);
    return absl::OkStatus();
  }

 private:
  // Looks rows up and computes what the machine adds to the logits.
  void ForwardMachine(const LayerContext& context, ParameterSpans parameters,
                      DeepFmMicroBatch& m) const {
    const absl::Span<float> first_order = absl::MakeSpan(m.first_order);
    if (shape_.numeric > 0) {
      numeric_.Forward(context, parameters.subspan(0, 1), m.numeric, first_order);
    } else {
      std::fill(first_order.begin(), first_order.end(), 0.0f);
    }
    first_order_.Forward(context, {.offsets = m.offsets, .values = m.values}, m.sparse[0],
                         first_order);
    join_.Forward(context, m.sparse[0], absl::MakeSpan(m.joined));
    machine_.Forward(context, {}, m.joined, absl::MakeSpan(m.second_order));
  }

  // The logit is a sum, so the gradient of each part is that of the logit, which the perceptron's
  // end left.
  void BackwardMachine(const LayerContext& context, GradientSpans gradients,
                       DeepFmMicroBatch& m) const {
    const std::vector<float>& logit_gradient = m.activations.out.back();
    if (shape_.numeric > 0) {
      numeric_.BackwardWeights(context,
                               {.in = m.numeric, .out = {}, .out_gradient = logit_gradient},
                               gradients.subspan(0, 1));
    }
    // The perceptron has written its part.
    machine_.BackwardInput(context, {}, {.in = m.joined, .out = {}, .out_gradient = logit_gradient},
                           Accumulation::kAdd, absl::MakeSpan(m.joined_gradient));
    m.sparse[0].gradients.assign(m.sparse[0].rows.size(), 0);
    first_order_.BackwardRows(context, {.offsets = m.offsets, .values = m.values}, logit_gradient,
                              m.sparse[0]);
    join_.BackwardRows(context, m.joined_gradient, m.sparse[0]);
  }

  absl::Status CheckFields(const Batch& batch) const {
    for (int64_t i = 0; i < batch.examples; ++i) {
      const int64_t features = batch.offsets[i + 1] - batch.offsets[i];
      if (features != shape_.fields) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Example ", i, " of a batch has ", features, " categorical features, not ",
            shape_.fields, ": it was not read from the data that the model was made for."));
      }
    }
    return absl::OkStatus();
  }

  const Shape shape_;
  const LinearLayer numeric_;
  const SparseLinear first_order_;
  const EmbeddingJoin join_;
  const FactorizationMachineLayer machine_;
  const Perceptron perceptron_;
  const LogisticHead logistic_{};
  const std::optional<RegressionHead> regression_;
  ModelDescription description_;  // Const after construction.
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> CreateDeepFm(const v1::DeepFmSpec& spec,
                                                          const DatasetInfo& data) {
  if (!data.sparse || data.fields == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.deep_fm reads categorical fields, but the data have ", DescribeData(data),
        "; use CSV with categorical columns or click-log data, or another model (",
        data.vocabulary > 0 ? "ngram"
        : data.sparse       ? "logistic_regression"
                            : "mlp",
        ")."));
  }
  MUSTER_RETURN_IF_ERROR(
      CheckField("model.deep_fm.embedding_dim", spec.embedding_dim(), 1, kMaxEmbeddingDim - 1));
  MUSTER_RETURN_IF_ERROR(CheckHidden("model.deep_fm.hidden", spec.hidden(), 1));
  const DeepFm::Shape shape = {
      .fields = data.fields,
      .numeric = data.dense_features,
      .dim = spec.embedding_dim(),
      .hidden = std::vector<int64_t>(spec.hidden().begin(), spec.hidden().end())};
  if (spec.has_regression()) {
    MUSTER_ASSIGN_OR_RETURN(
        const RegressionHead head,
        CreateRegressionHead("model.deep_fm.regression", spec.regression(), data));
    return std::make_unique<DeepFm>(shape, head);
  }
  if (data.classes > 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.deep_fm tells two classes apart, but the labels of the data have ", data.classes,
        "; use a label column of two values, logistic_regression, or "
        "model.deep_fm.regression if the label is a number to predict."));
  }
  return std::make_unique<DeepFm>(shape, std::nullopt);
}

}  // namespace muster
