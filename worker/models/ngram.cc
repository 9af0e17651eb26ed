#include "worker/models/ngram.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "worker/models/checks.h"
#include "worker/models/ngram_keys.h"
#include "worker/nn/layers/embedding_join.h"
#include "worker/nn/layers/heads.h"
#include "worker/nn/layers/key_deduplicator.h"
#include "worker/nn/layers/perceptron.h"

namespace muster {
namespace {

constexpr uint64_t kMaxBuckets = uint64_t{1} << 48;

// Rows that held-out text meets first are read as they started, so they start close to nothing.
constexpr float kNgramEmbeddingScale = 0.05f;

struct NgramMicroBatch final : MicroBatch {
  KeyDeduplicator deduplicator;
  // [B, orders]: the key of each look-up.
  std::vector<uint64_t> uses;
  // [B, orders * dim], and its gradient.
  std::vector<float> joined;
  std::vector<float> joined_gradient;
  Perceptron::Activations activations;
};

class Ngram final : public Model {
 public:
  struct Shape {
    int64_t orders = 0;
    int64_t dim = 0;
    int64_t hidden = 0;
    int64_t vocabulary = 0;
    uint64_t buckets = 0;
  };

  explicit Ngram(const Shape& shape)
      : shape_(shape),
        join_({.lookups = shape.orders,
               .row_dim = shape.dim,
               .column = 0,
               .width = shape.dim,
               .out_features = shape.orders * shape.dim}),
        perceptron_({.in_features = shape.orders * shape.dim,
                     .hidden = {shape.hidden},
                     .out_features = shape.vocabulary,
                     .first_tensor = 0}),
        head_(shape.vocabulary) {
    perceptron_.AppendTensors(description_.tensors);
    description_.sparse_tables.push_back(
        {.name = "embedding",
         .dim = static_cast<uint32_t>(shape.dim),
         .initializer = {.kind = Initializer::Kind::kUniform, .scale = kNgramEmbeddingScale}});
    description_.units = perceptron_.units();
    description_.default_metric = "bits_per_byte";
  }

  const ModelDescription& description() const override { return description_; }

  std::unique_ptr<MicroBatch> NewMicroBatch() const override {
    auto micro_batch = std::make_unique<NgramMicroBatch>();
    micro_batch->sparse.resize(1);
    return micro_batch;
  }

  absl::Status Load(const Batch& batch, MicroBatch& micro_batch) const override {
    MUSTER_RETURN_IF_ERROR(CheckLabels(batch, shape_.vocabulary));
    MUSTER_RETURN_IF_ERROR(CheckTokens(batch));
    auto& m = static_cast<NgramMicroBatch&>(micro_batch);
    m.Start(batch);
    const int64_t B = batch.examples;
    m.uses.resize(B * shape_.orders);
    const int64_t context = B > 0 ? batch.tokens.size() / B : 0;
    for (int64_t i = 0; i < B; ++i) {
      NgramKeys(absl::MakeConstSpan(batch.tokens).subspan(i * context, context), shape_.buckets,
                absl::MakeSpan(m.uses).subspan(i * shape_.orders, shape_.orders));
    }
    m.deduplicator.Build(m.uses, m.sparse[0].keys, m.sparse[0].inverse);
    m.sparse[0].rows.resize(m.sparse[0].keys.size() * shape_.dim);
    m.joined.resize(B * shape_.orders * shape_.dim);
    m.joined_gradient.resize(m.joined.size());
    perceptron_.Begin(B, m.activations);
    m.activations.in = m.joined;
    m.activations.in_gradient = absl::MakeSpan(m.joined_gradient);
    return absl::OkStatus();
  }

  absl::Status Forward(const LayerContext& context, int unit, const ModelParameters& parameters,
                       MicroBatch& micro_batch) const override {
    auto& m = static_cast<NgramMicroBatch&>(micro_batch);
    if (unit == 0) join_.Forward(context, m.sparse[0], absl::MakeSpan(m.joined));
    MUSTER_RETURN_IF_ERROR(perceptron_.Forward(context, unit, parameters.values, m.activations));
    if (unit + 1 == perceptron_.units()) {
      const HeadResult result =
          head_.Forward(context, m.labels, absl::MakeSpan(m.activations.out.back()), {});
      m.loss_sum = result.loss_sum;
      m.correct = result.correct;
    }
    return absl::OkStatus();
  }

  absl::Status Backward(const LayerContext& context, int unit, const ModelParameters& parameters,
                        GradientSpans gradients, MicroBatch& micro_batch) const override {
    auto& m = static_cast<NgramMicroBatch&>(micro_batch);
    MUSTER_RETURN_IF_ERROR(
        perceptron_.Backward(context, unit, parameters.values, gradients, m.activations));
    if (unit == 0) {
      m.sparse[0].gradients.assign(m.sparse[0].rows.size(), 0);
      join_.BackwardRows(context, m.joined_gradient, m.sparse[0]);
    }
    return absl::OkStatus();
  }

 private:
  // Checks that all examples have equally many tokens, at least `orders`, each a symbol or -1.
  absl::Status CheckTokens(const Batch& batch) const {
    const int64_t tokens = batch.tokens.size();
    if (tokens < batch.examples * shape_.orders ||
        tokens != (batch.examples == 0 ? 0 : tokens / batch.examples * batch.examples)) {
      return absl::InvalidArgumentError(
          absl::StrCat("A batch of ", batch.examples, " examples has ", tokens,
                       " tokens of context; the model reads ", shape_.orders, " per example."));
    }
    for (int64_t i = 0; i < tokens; ++i) {
      if (batch.tokens[i] < -1 || batch.tokens[i] >= shape_.vocabulary) {
        return absl::InvalidArgumentError(absl::StrCat("Token ", i, " of a batch is ",
                                                       batch.tokens[i], "; it must be from -1 to ",
                                                       shape_.vocabulary - 1, "."));
      }
    }
    return absl::OkStatus();
  }

  const Shape shape_;
  const EmbeddingJoin join_;
  const Perceptron perceptron_;
  const SoftmaxHead head_;
  ModelDescription description_;  // Const after construction.
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> CreateNgram(const v1::NgramSpec& spec,
                                                         const DatasetInfo& data) {
  if (data.vocabulary == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.ngram reads text, but the data have ", DescribeData(data),
                     "; use data.text, or another model (mlp, logistic_regression or deep_fm)."));
  }
  MUSTER_RETURN_IF_ERROR(CheckField("model.ngram.orders", spec.orders(), 1, kMaxOrders));
  MUSTER_RETURN_IF_ERROR(
      CheckField("model.ngram.embedding_dim", spec.embedding_dim(), 1, kMaxEmbeddingDim));
  MUSTER_RETURN_IF_ERROR(CheckField("model.ngram.hidden", spec.hidden(), 1, kMaxWidth));
  MUSTER_RETURN_IF_ERROR(CheckField("model.ngram.buckets", spec.buckets(), 0, kMaxBuckets));
  if (data.context < spec.orders()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.ngram.orders is ", spec.orders(), ", but the data was opened with ", data.context,
        " bytes of context; open it with RequiredContext of the model."));
  }
  return std::make_unique<Ngram>(Ngram::Shape{.orders = spec.orders(),
                                              .dim = spec.embedding_dim(),
                                              .hidden = spec.hidden(),
                                              .vocabulary = data.vocabulary,
                                              .buckets = spec.buckets()});
}

}  // namespace muster
