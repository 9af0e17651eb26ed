#include "worker/models/transformer.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kernels/dropout.h"
#include "common/kernels/rotary.h"
#include "common/kernels/row_sums.h"
#include "common/kernels/token_embedding.h"
#include "proto/job.pb.h"
#include "worker/models/checks.h"
#include "worker/models/resolve_transformer.h"
#include "worker/nn/compute_weights.h"
#include "worker/nn/language_head.h"
#include "worker/nn/transformer_block.h"
#include "worker/nn/transformer_memory.h"
#include "worker/nn/transformer_tensors.h"

namespace muster {
namespace {

constexpr absl::string_view kEmbeddingDropout = "embedding";

template <typename T>
constexpr DType kComputeType = std::is_same_v<T, BFloat16>  ? DType::kBf16
                               : std::is_same_v<T, Float16> ? DType::kF16
                                                            : DType::kF32;

template <typename T>
struct TransformerMicroBatch final : MicroBatch {
  TransformerMicroBatch(const TransformerShape& shape, Recompute recompute,
                        const std::vector<TensorSpec>& tensors, const std::vector<bool>& copied)
      : memory(shape, recompute), weights(tensors, copied) {}

  // [B, T].
  std::vector<int32_t> tokens;
  TokenRows rows;
  TransformerMemory<T> memory;
  ComputeWeights<T> weights;
  // What the last unit that ran leaves to the next.
  ResidualStream<T> stream;
};

// Computes in T: float, BFloat16 or Float16.
template <typename T>
class Transformer final : public Model {
 public:
  Transformer(const TransformerShape& shape, Recompute recompute)
      : shape_(shape),
        recompute_(recompute),
        tensors_(MakeTransformerTensors(shape)),
        copied_(CopiedTensors(tensors_)),
        head_(shape) {
    if (shape.positions == TransformerShape::Positions::kRotary) {
      rotary_table_.resize(shape.context * shape.head_dim());
      FillRotaryTable(shape.context, shape.head_dim(), shape.rotary_base, rotary_table_.data());
    }
    const float* table = rotary_table_.empty() ? nullptr : rotary_table_.data();
    for (int64_t l = 0; l < shape.layers; ++l) blocks_.emplace_back(shape, l, table);
    description_.tensors = tensors_.specs;
    for (size_t t = 0; t < copied_.size(); ++t) {
      if (copied_[t]) description_.tensors[t].compute = kComputeType<T>;
    }
    description_.units = shape.units();
    description_.default_metric = "bits_per_byte";
  }

  const ModelDescription& description() const override { return description_; }

  std::unique_ptr<MicroBatch> NewMicroBatch() const override {
    return std::make_unique<TransformerMicroBatch<T>>(shape_, recompute_, tensors_.specs, copied_);
  }

  absl::Status Load(const Batch& batch, MicroBatch& micro_batch) const override {
    MUSTER_RETURN_IF_ERROR(CheckTokens(batch));
    auto& m = static_cast<TransformerMicroBatch<T>&>(micro_batch);
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
    auto& m = static_cast<TransformerMicroBatch<T>&>(micro_batch);
    if (unit == 0) {
      m.rows.first_example = context.first_example;
      m.memory.Prepare(m.rows, context.pass);
      m.weights.Prepare(context);
    }
    if (m.rows.sequences == 0) return absl::OkStatus();
    m.weights.BeforeUnit(context, unit, parameters);
    if (unit == 0) {
      Embed(context, parameters, m);
    } else if (unit <= shape_.layers) {
      const int64_t l = unit - 1;
      m.stream = blocks_[l].Forward(context, m.rows, WeightsOf(tensors_.blocks[l], parameters, m),
                                    m.stream, m.memory.block(l), m.memory.scratch());
    } else {
      const HeadSums sums = head_.Forward(context, m.rows, HeadWeights(parameters, m), m.stream,
                                          m.labels, m.memory.head());
      m.loss_sum = sums.loss;
      m.correct = sums.correct;
    }
    return absl::OkStatus();
  }

  absl::Status Backward(const LayerContext& context, int unit, ParameterSpans parameters,
                        GradientSpans gradients, MicroBatch& micro_batch) const override {
    auto& m = static_cast<TransformerMicroBatch<T>&>(micro_batch);
    if (m.rows.sequences == 0) {
      if (context.gradients == Accumulation::kWrite) ZeroGradients(unit, gradients);
      return absl::OkStatus();
    }
    float* stream_gradient = m.memory.stream_gradient();
    if (unit == 0) {
      EmbedBackward(context, gradients, m);
    } else if (unit <= shape_.layers) {
      const int64_t l = unit - 1;
      const BlockTensors& tensors = tensors_.blocks[l];
      const BlockWeights<T> weights = WeightsOf(tensors, parameters, m);
      blocks_[l].Again(recompute_, context, m.rows, weights, m.memory.block(l), m.memory.scratch());
      blocks_[l].Backward(context, m.rows, weights, m.memory.block(l), m.memory.scratch(),
                          stream_gradient, GradientsOf(tensors, gradients));
    } else {
      head_.Backward(
          context, m.rows, HeadWeights(parameters, m), m.labels, m.memory.head(), stream_gradient,
          m.memory.scratch().branch,
          {.norm = GradientOf(tensors_.norm, gradients), .head = gradients[tensors_.head].data()});
    }
    return absl::OkStatus();
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

  TokenEmbeddingShape EmbeddingShape(const TransformerMicroBatch<T>& m) const {
    TokenEmbeddingShape shape;
    shape.rows = m.rows.count();
    shape.context = m.rows.length;
    shape.width = shape_.width;
    shape.vocabulary = shape_.vocabulary_rows();
    return shape;
  }

  // The embedding's dropout, or its backward, in place.
  void DropEmbedding(const LayerContext& context, const TransformerMicroBatch<T>& m,
                     float* stream) const {
    if (shape_.dropout == 0 || context.pass != Pass::kTraining) return;
    const DropoutMask mask(context.seed, kEmbeddingDropout, context.clock, shape_.dropout);
    Dropout<float>(mask,
                   {.examples = m.rows.sequences,
                    .size = m.rows.length * shape_.width,
                    .first_example = m.rows.first_example},
                   stream, stream);
  }

  void Embed(const LayerContext& context, ParameterSpans parameters,
             TransformerMicroBatch<T>& m) const {
    float* out = m.memory.block(0).norm1.sum;
    m.stream = {.sum = out, .branch = nullptr};
    const float* positions =
        tensors_.positions == kNoTensor ? nullptr : parameters[tensors_.positions].data();
    TokenEmbedding<float>(EmbeddingShape(m), m.tokens.data(), parameters[tensors_.embedding].data(),
                          positions, out);
    DropEmbedding(context, m, out);
  }

  // What a unit's backward writes of no tokens. A tied matrix is the head's to write.
  void ZeroGradients(int unit, GradientSpans gradients) const {
    for (size_t t = 0; t < tensors_.specs.size(); ++t) {
      if (static_cast<int>(tensors_.specs[t].unit) != unit) continue;
      if (shape_.tied_head && static_cast<int>(t) == tensors_.embedding) continue;
      SetToZero(gradients[t].size(), gradients[t].data());
    }
  }

  void EmbedBackward(const LayerContext& context, GradientSpans gradients,
                     TransformerMicroBatch<T>& m) const {
    if (context.gradients == Accumulation::kWrite) ZeroGradients(0, gradients);
    DropEmbedding(context, m, m.memory.stream_gradient());
    float* positions =
        tensors_.positions == kNoTensor ? nullptr : gradients[tensors_.positions].data();
    TokenEmbeddingBackward(EmbeddingShape(m), m.tokens.data(), m.memory.stream_gradient(),
                           gradients[tensors_.embedding].data(), positions);
  }

  static const float* VectorOf(int tensor, ParameterSpans parameters) {
    return tensor == kNoTensor ? nullptr : parameters[tensor].data();
  }

  static NormWeights NormOf(const LayerTensors& norm, ParameterSpans parameters) {
    return {VectorOf(norm.weight, parameters), VectorOf(norm.bias, parameters)};
  }

  static LinearWeights<T> LinearOf(const LayerTensors& linear, ParameterSpans parameters,
                                   const TransformerMicroBatch<T>& m) {
    return {m.weights.Get(linear.weight), VectorOf(linear.bias, parameters)};
  }

  static BlockWeights<T> WeightsOf(const BlockTensors& tensors, ParameterSpans parameters,
                                   const TransformerMicroBatch<T>& m) {
    return {.norm1 = NormOf(tensors.norm1, parameters),
            .qkv = LinearOf(tensors.qkv, parameters, m),
            .proj = LinearOf(tensors.proj, parameters, m),
            .norm2 = NormOf(tensors.norm2, parameters),
            .up = LinearOf(tensors.up, parameters, m),
            .down = LinearOf(tensors.down, parameters, m)};
  }

  LanguageHeadWeights<T> HeadWeights(ParameterSpans parameters,
                                     const TransformerMicroBatch<T>& m) const {
    return {.norm = NormOf(tensors_.norm, parameters), .head = m.weights.Get(tensors_.head)};
  }

  static LayerGradients GradientOf(const LayerTensors& layer, GradientSpans gradients) {
    return {gradients[layer.weight].data(),
            layer.bias == kNoTensor ? nullptr : gradients[layer.bias].data()};
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
  const Recompute recompute_;
  const TransformerTensors tensors_;
  const std::vector<bool> copied_;
  const LanguageHead<T> head_;
  // Const after construction.
  std::vector<float> rotary_table_;
  std::vector<TransformerBlock<T>> blocks_;
  ModelDescription description_;
};

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
  const Recompute recompute = ResolveRecompute(compute);
  if (compute.type() == v1::ComputeSpec::BF16) {
    return std::make_unique<Transformer<BFloat16>>(shape, recompute);
  }
  if (compute.type() == v1::ComputeSpec::F16) {
    return std::make_unique<Transformer<Float16>>(shape, recompute);
  }
  return std::make_unique<Transformer<float>>(shape, recompute);
}

}  // namespace muster
