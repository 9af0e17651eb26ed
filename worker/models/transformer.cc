#include "worker/models/transformer.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/compute/host_ops.h"
#include "common/kernels/transformer/rotary.h"
#include "common/plan/transformer_memory_plan.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"
#include "worker/models/checks.h"
#include "worker/models/resolve_transformer.h"
#include "worker/nn/transformer/transformer_memory.h"
#include "worker/nn/transformer/transformer_units.h"

namespace muster {
namespace {

// Returns the table of rotary positions; empty where the shape has none.
std::vector<float> RotaryTableOf(const TransformerShape& shape) {
  if (shape.positions != TransformerShape::Positions::kRotary) return {};
  std::vector<float> table(shape.context * shape.head_dim());
  FillRotaryTable(shape.context, shape.head_dim(), shape.rotary_base, table.data());
  return table;
}

struct TransformerMicroBatch final : MicroBatch {
  TransformerMicroBatch(const TransformerShape& shape, DType type, Recompute recompute)
      : memory(shape, type, recompute) {}

  // Returns the status of what has run.
  absl::Status TakeResults() {
    loss_sum = sums.loss;
    correct = static_cast<int64_t>(sums.correct);
    return ops.stream().status();
  }

  HostOps ops;
  // [B, T].
  std::vector<int32_t> tokens;
  TokenRows rows;
  // Arrays of the forward pass, from its first unit on.
  DropoutClock clock;
  float loss_scale = 1;
  DeviceHeadSums sums;
  TransformerMemory memory;
};

class Transformer final : public Model {
 public:
  // Computes in `type`: f32, bf16 or f16.
  Transformer(const TransformerShape& shape, DType type, Recompute recompute)
      : shape_(shape),
        type_(type),
        recompute_(recompute),
        rotary_table_(RotaryTableOf(shape)),
        units_(shape, recompute, rotary_table_.empty() ? nullptr : rotary_table_.data()) {
    description_.tensors = units_.tensors().specs;
    for (const int matrix : Matrices(units_.tensors())) {
      description_.tensors[matrix].compute = type;
    }
    description_.units = shape.units();
    description_.default_metric = "bits_per_byte";
  }

  const ModelDescription& description() const override { return description_; }

  std::unique_ptr<MicroBatch> NewMicroBatch() const override {
    return std::make_unique<TransformerMicroBatch>(shape_, type_, recompute_);
  }

  absl::Status Load(const Batch& batch, MicroBatch& micro_batch) const override {
    MUSTER_RETURN_IF_ERROR(CheckTokens(batch));
    auto& m = static_cast<TransformerMicroBatch&>(micro_batch);
    m.Start(batch);
    m.loss_weight = std::count_if(batch.labels.begin(), batch.labels.end(),
                                  [](int32_t label) { return label >= 0; });
    m.tokens = batch.tokens;
    m.rows = {.sequences = batch.examples,
              .length = batch.examples == 0
                            ? 0
                            : static_cast<int64_t>(batch.tokens.size()) / batch.examples};
    return absl::OkStatus();
  }

  absl::Status Forward(const LayerContext& context, int unit, const ModelParameters& parameters,
                       MicroBatch& micro_batch) const override {
    auto& m = static_cast<TransformerMicroBatch&>(micro_batch);
    const TransformerPass pass = PassOf(context, parameters, m);
    if (unit == 0) {
      m.clock = {.clock = context.clock, .first_example = context.first_example};
      m.loss_scale = context.loss_scale;
      m.sums = {};
      m.memory.Prepare(pass.context);
    }
    m.handed_on = units_.Forward(pass, unit, m.handed_on);
    return m.TakeResults();
  }

  absl::Status RunLastUnit(const LayerContext& context, const ModelParameters& parameters,
                           GradientSpans gradients, MicroBatch& micro_batch) const override {
    auto& m = static_cast<TransformerMicroBatch&>(micro_batch);
    m.handed_on = units_.RunLastUnit(PassOf(context, parameters, m), m.handed_on, gradients);
    return m.TakeResults();
  }

  absl::Status Backward(const LayerContext& context, int unit, const ModelParameters& parameters,
                        GradientSpans gradients, MicroBatch& micro_batch) const override {
    auto& m = static_cast<TransformerMicroBatch&>(micro_batch);
    m.handed_on = units_.Backward(PassOf(context, parameters, m), unit, gradients);
    return m.TakeResults();
  }

  absl::Status BackwardInput(const LayerContext& context, int unit,
                             const ModelParameters& parameters, GradientSpans gradients,
                             MicroBatch& micro_batch) const override {
    auto& m = static_cast<TransformerMicroBatch&>(micro_batch);
    m.handed_on = units_.BackwardInput(PassOf(context, parameters, m), unit, gradients);
    return m.TakeResults();
  }

  absl::Status BackwardWeights(const LayerContext& context, int unit, GradientSpans gradients,
                               MicroBatch& micro_batch) const override {
    auto& m = static_cast<TransformerMicroBatch&>(micro_batch);
    units_.BackwardWeights(PassOf(context, {}, m), unit, gradients);
    return m.TakeResults();
  }

 private:
  // Returns the tensors that are computed with in the type of computation; the embedding is read in
  // f32.
  static std::vector<int> Matrices(const TransformerTensors& tensors) {
    std::vector<int> matrices = {tensors.head};
    for (const BlockTensors& block : tensors.blocks) {
      for (const LayerTensors& layer : {block.qkv, block.proj, block.up, block.down}) {
        matrices.push_back(layer.weight);
      }
    }
    return matrices;
  }

  TransformerPass PassOf(const LayerContext& context, const ModelParameters& parameters,
                         TransformerMicroBatch& m) const {
    return {.context = {.ops = m.ops,
                        .type = type_,
                        .rows = m.rows,
                        .pass = context.pass,
                        .seed = context.seed,
                        .clock = &m.clock,
                        .loss_scale = &m.loss_scale,
                        .gradients = context.gradients,
                        .split_backward = m.split_backward},
            .parameters = parameters,
            .tokens = {.tokens = m.tokens.data()},
            .loss = {.labels = m.labels.data(), .sums = &m.sums},
            .arrays = m.memory.arrays()};
  }

  // Whole sequences of at most `context` tokens, with a label in [-1, V) each.
  absl::Status CheckTokens(const Batch& batch) const {
    const int64_t tokens = batch.tokens.size();
    const int64_t length = batch.examples == 0 ? 0 : tokens / batch.examples;
    if (tokens != batch.examples * length || length > shape_.context ||
        (batch.examples > 0 && length == 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "A batch of ", batch.examples, " sequences has ", tokens,
          " tokens; it must have the same number for each, from 1 to the model's context of ",
          shape_.context, "."));
    }
    if (static_cast<int64_t>(batch.labels.size()) != tokens) {
      return absl::InvalidArgumentError(absl::StrCat("A batch of ", tokens, " tokens has ",
                                                     batch.labels.size(),
                                                     " labels; it must have one each."));
    }
    for (int64_t i = 0; i < tokens; ++i) {
      if (batch.tokens[i] < 0 || batch.tokens[i] >= shape_.vocabulary) {
        return absl::InvalidArgumentError(absl::StrCat("Token ", i, " of a batch is ",
                                                       batch.tokens[i], "; it must be from 0 to ",
                                                       shape_.vocabulary - 1, "."));
      }
      if (batch.labels[i] < -1 || batch.labels[i] >= shape_.vocabulary) {
        return absl::InvalidArgumentError(absl::StrCat("Label ", i, " of a batch is ",
                                                       batch.labels[i], "; it must be from -1 to ",
                                                       shape_.vocabulary - 1, "."));
      }
    }
    return absl::OkStatus();
  }

  const TransformerShape shape_;
  const DType type_;
  const Recompute recompute_;
  const std::vector<float> rotary_table_;
  const TransformerUnits units_;
  ModelDescription description_;  // const after construction
};

DType ComputeType(const v1::ComputeSpec& compute) {
  switch (compute.type()) {
    case v1::ComputeSpec::BF16:
      return DType::kBf16;
    case v1::ComputeSpec::F16:
      return DType::kF16;
    default:
      return DType::kF32;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> CreateTransformer(const v1::TransformerSpec& spec,
                                                               const v1::ComputeSpec& compute,
                                                               const DatasetInfo& data) {
  if (data.vocabulary == 0 || data.labels_per_example <= 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.transformer reads sequences of tokens, but the data have ",
                     DescribeData(data), "; use data.sequences, or another model."));
  }
  MUSTER_ASSIGN_OR_RETURN(const TransformerShape shape, ResolveTransformer(spec, data.vocabulary));
  if (data.context > shape.context) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.transformer.context is ", shape.context, ", but the data was opened with ",
        data.context, " tokens a sequence; open it with RequiredContext of the model."));
  }
  return std::make_unique<Transformer>(shape, ComputeType(compute), ResolveRecompute(compute));
}

}  // namespace muster
