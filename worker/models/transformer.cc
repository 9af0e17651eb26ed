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
#include "worker/nn/transformer/compute_context.h"
#include "worker/nn/transformer/compute_weights.h"
#include "worker/nn/transformer/language_head.h"
#include "worker/nn/transformer/transformer_block.h"
#include "worker/nn/transformer/transformer_embedding.h"
#include "worker/nn/transformer/transformer_memory.h"
#include "worker/nn/transformer/transformer_tensors.h"

namespace muster {
namespace {

struct TransformerMicroBatch final : MicroBatch {
  TransformerMicroBatch(const TransformerShape& shape, DType type, Recompute recompute,
                        const std::vector<TensorSpec>& tensors, const std::vector<bool>& copied)
      : memory(shape, type, recompute), weights(type, tensors, copied) {}

  void TakeSums() {
    loss_sum = sums.loss;
    correct = static_cast<int64_t>(sums.correct);
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
  ComputeWeights weights;
  // What the last unit that ran leaves to the next.
  ResidualStream stream;
};

class Transformer final : public Model {
 public:
  // Computes in `type`: f32, bf16 or f16.
  Transformer(const TransformerShape& shape, DType type, Recompute recompute)
      : shape_(shape),
        type_(type),
        recompute_(recompute),
        tensors_(MakeTransformerTensors(shape)),
        copied_(CopiedTensors(tensors_)),
        embedding_(shape),
        head_(shape) {
    if (shape.positions == TransformerShape::Positions::kRotary) {
      rotary_table_.resize(shape.context * shape.head_dim());
      FillRotaryTable(shape.context, shape.head_dim(), shape.rotary_base, rotary_table_.data());
    }
    const float* table = rotary_table_.empty() ? nullptr : rotary_table_.data();
    for (int64_t l = 0; l < shape.layers; ++l) blocks_.emplace_back(shape, l, table);
    description_.tensors = tensors_.specs;
    for (size_t t = 0; t < copied_.size(); ++t) {
      if (copied_[t]) description_.tensors[t].compute = type;
    }
    description_.units = shape.units();
    description_.default_metric = "bits_per_byte";
  }

  const ModelDescription& description() const override { return description_; }

  std::unique_ptr<MicroBatch> NewMicroBatch() const override {
    return std::make_unique<TransformerMicroBatch>(shape_, type_, recompute_, tensors_.specs,
                                                   copied_);
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

  absl::Status Forward(const LayerContext& context, int unit, ParameterSpans parameters,
                       MicroBatch& micro_batch) const override {
    auto& m = static_cast<TransformerMicroBatch&>(micro_batch);
    if (unit == 0) {
      m.clock = {.clock = context.clock, .first_example = context.first_example};
      m.loss_scale = context.loss_scale;
      m.sums = {};
      m.memory.Prepare(m.rows, context.pass);
      m.weights.Prepare(context);
    }
    if (m.rows.sequences == 0) return absl::OkStatus();
    m.weights.BeforeUnit(m.ops, context, unit, parameters);
    const ComputeContext compute = ContextOf(context, m);
    if (unit == 0) {
      float* stream = m.memory.block(0).norm1.sum;
      embedding_.Forward(compute, {.tokens = m.tokens.data()},
                         {.table = parameters[tensors_.embedding].data(),
                          .positions = ValuesOf(tensors_.positions, parameters)},
                         stream);
      m.stream = {.sum = stream, .branch = nullptr};
    } else if (unit <= shape_.layers) {
      const int64_t l = unit - 1;
      m.stream = blocks_[l].Forward(compute, WeightsOf(tensors_.blocks[l], parameters, m), m.stream,
                                    m.memory.block(l), m.memory.scratch());
    } else {
      head_.Forward(compute, HeadWeights(parameters, m), m.stream, {m.labels.data(), &m.sums},
                    m.memory.head());
      m.TakeSums();
    }
    return m.ops.stream().status();
  }

  absl::Status RunLastUnit(const LayerContext& context, ParameterSpans parameters,
                           GradientSpans gradients, MicroBatch& micro_batch) const override {
    auto& m = static_cast<TransformerMicroBatch&>(micro_batch);
    const int unit = description_.units - 1;
    if (m.rows.sequences == 0) {
      if (context.gradients == Accumulation::kWrite) ZeroGradients(m.ops, unit, gradients);
      return m.ops.stream().status();
    }
    m.weights.BeforeUnit(m.ops, context, unit, parameters);
    head_.ForwardBackward(ContextOf(context, m), HeadWeights(parameters, m), m.stream,
                          {m.labels.data(), &m.sums}, m.memory.head(),
                          {.stream = m.memory.stream_gradient(),
                           .branch = m.memory.scratch().branch,
                           .norm = GradientOf(tensors_.norm, gradients),
                           .head = gradients[tensors_.head].data()});
    m.TakeSums();
    return m.ops.stream().status();
  }

  absl::Status Backward(const LayerContext& context, int unit, ParameterSpans parameters,
                        GradientSpans gradients, MicroBatch& micro_batch) const override {
    auto& m = static_cast<TransformerMicroBatch&>(micro_batch);
    const bool empty = m.rows.sequences == 0;
    // The gradients of the embedding are added to.
    if (context.gradients == Accumulation::kWrite && (empty || unit == 0)) {
      ZeroGradients(m.ops, unit, gradients);
    }
    if (empty) return m.ops.stream().status();
    const ComputeContext compute = ContextOf(context, m);
    float* stream_gradient = m.memory.stream_gradient();
    if (unit == 0) {
      embedding_.Backward(compute, {.tokens = m.tokens.data()}, stream_gradient,
                          {.table = gradients[tensors_.embedding].data(),
                           .positions = ValuesOf(tensors_.positions, gradients)});
    } else {
      const int64_t l = unit - 1;
      const BlockTensors& tensors = tensors_.blocks[l];
      const BlockWeights weights = WeightsOf(tensors, parameters, m);
      blocks_[l].Again(recompute_, compute, weights, m.memory.block(l), m.memory.scratch());
      blocks_[l].Backward(compute, weights, m.memory.block(l), m.memory.scratch(), stream_gradient,
                          GradientsOf(tensors, gradients));
    }
    return m.ops.stream().status();
  }

 private:
  // Matrices of the blocks and the head are; the embedding is read in f32.
  static std::vector<bool> CopiedTensors(const TransformerTensors& tensors) {
    std::vector<bool> copied(tensors.specs.size());
    for (const BlockTensors& block : tensors.blocks) {
      for (const LayerTensors& layer : {block.qkv, block.proj, block.up, block.down}) {
        copied[layer.weight] = true;
      }
    }
    copied[tensors.head] = true;
    return copied;
  }

  ComputeContext ContextOf(const LayerContext& context, TransformerMicroBatch& m) const {
    return {.ops = m.ops,
            .type = type_,
            .rows = m.rows,
            .pass = context.pass,
            .seed = context.seed,
            .clock = &m.clock,
            .loss_scale = &m.loss_scale,
            .gradients = context.gradients};
  }

  // What a unit's backward writes of no tokens. A tied matrix is the head's to write.
  void ZeroGradients(Ops& ops, int unit, GradientSpans gradients) const {
    for (size_t t = 0; t < tensors_.specs.size(); ++t) {
      if (static_cast<int>(tensors_.specs[t].unit) != unit) continue;
      if (shape_.tied_head && static_cast<int>(t) == tensors_.embedding) continue;
      ops.Zero(static_cast<int64_t>(gradients[t].size()), gradients[t].data());
    }
  }

  // Null where the shape does not have the tensor.
  template <typename E>
  static E* ValuesOf(int tensor, absl::Span<const absl::Span<E>> values) {
    return tensor == kNoTensor ? nullptr : values[tensor].data();
  }

  static NormWeights NormOf(const LayerTensors& norm, ParameterSpans parameters) {
    return {ValuesOf(norm.weight, parameters), ValuesOf(norm.bias, parameters)};
  }

  static LinearWeights LinearOf(const LayerTensors& linear, ParameterSpans parameters,
                                const TransformerMicroBatch& m) {
    return {m.weights.Get(linear.weight), ValuesOf(linear.bias, parameters)};
  }

  static BlockWeights WeightsOf(const BlockTensors& tensors, ParameterSpans parameters,
                                const TransformerMicroBatch& m) {
    return {.norm1 = NormOf(tensors.norm1, parameters),
            .qkv = LinearOf(tensors.qkv, parameters, m),
            .proj = LinearOf(tensors.proj, parameters, m),
            .norm2 = NormOf(tensors.norm2, parameters),
            .up = LinearOf(tensors.up, parameters, m),
            .down = LinearOf(tensors.down, parameters, m)};
  }

  LanguageHeadWeights HeadWeights(ParameterSpans parameters, const TransformerMicroBatch& m) const {
    return {.norm = NormOf(tensors_.norm, parameters), .head = m.weights.Get(tensors_.head)};
  }

  static LayerGradients GradientOf(const LayerTensors& layer, GradientSpans gradients) {
    return {gradients[layer.weight].data(), ValuesOf(layer.bias, gradients)};
  }

  static BlockGradients GradientsOf(const BlockTensors& tensors, GradientSpans gradients) {
    return {.norm1 = GradientOf(tensors.norm1, gradients),
            .qkv = GradientOf(tensors.qkv, gradients),
            .proj = GradientOf(tensors.proj, gradients),
            .norm2 = GradientOf(tensors.norm2, gradients),
            .up = GradientOf(tensors.up, gradients),
            .down = GradientOf(tensors.down, gradients)};
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
  const TransformerTensors tensors_;
  const std::vector<bool> copied_;
  const TransformerEmbedding embedding_;
  const LanguageHead head_;
  // Const after construction.
  std::vector<float> rotary_table_;
  std::vector<TransformerBlock> blocks_;
  ModelDescription description_;
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
