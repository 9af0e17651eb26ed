#include "worker/models/transformer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/compute/host_ops.h"
#include "common/partition/local_tensors.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"
#include "worker/models/checks.h"
#include "worker/models/resolve_transformer.h"
#include "worker/nn/context_group.h"
#include "worker/nn/transformer/arrays/transformer_tensors.h"
#include "worker/nn/transformer/host_backend.h"
#include "worker/nn/transformer/stream_boundary.h"
#include "worker/nn/transformer/transformer_units.h"

namespace muster {
namespace {

class Transformer final : public Model, private UnitBoundaries {
 public:
  // Computes in `type`: f32, bf16 or f16.
  Transformer(const TransformerShape& shape, const Mesh& mesh, DType type, Recompute recompute,
              std::unique_ptr<const TransformerBackend> backend)
      : shape_(shape),
        type_(type),
        context_ranks_(mesh.size(kContext)),
        backend_(std::move(backend)),
        units_(shape, mesh, recompute, backend_->rotary_table()),
        boundary_(shape) {
    description_.tensors = units_.tensors().specs;
    for (const int matrix : Matrices(units_.tensors())) {
      description_.tensors[matrix].compute = type;
    }
    description_.units = shape.units();
    description_.experts = shape.experts.experts;
    description_.drops_choices = shape.experts.capacity > 0;
    description_.default_metric = "bits_per_byte";
    description_.most_examples = backend_->most_examples();
    description_.on_device = backend_->on_device();
  }

  const ModelDescription& description() const override { return description_; }

  std::unique_ptr<MicroBatch> NewMicroBatch() const override { return backend_->NewMicroBatch(); }

  const UnitBoundaries* boundaries() const override { return this; }

  absl::Status Load(const Batch& batch, MicroBatch& micro_batch) const override {
    MUSTER_RETURN_IF_ERROR(CheckTokens(batch));
    micro_batch.Start(batch);
    micro_batch.loss_weight = std::count_if(batch.labels.begin(), batch.labels.end(),
                                            [](int32_t label) { return label >= 0; });
    return In(micro_batch).Load(batch);
  }

  absl::Status Forward(const LayerContext& context, int unit, const ModelParameters& parameters,
                       MicroBatch& micro_batch) const override {
    TransformerMicroBatch& m = In(micro_batch);
    if (unit == 0) m.Begin(context);
    return m.Run({UnitCall::Kind::kForward, unit},
                 [this, context, unit, parameters, &m](const ResidualStream& in) {
                   return units_.Forward(PassOf(context, parameters, m), unit, in);
                 });
  }

  absl::Status RunLastUnit(const LayerContext& context, const ModelParameters& parameters,
                           GradientSpans gradients, MicroBatch& micro_batch) const override {
    TransformerMicroBatch& m = In(micro_batch);
    return m.Run({UnitCall::Kind::kLastUnit, shape_.units() - 1, context.gradients},
                 [this, context, parameters, gradients, &m](const ResidualStream& in) {
                   return units_.RunLastUnit(PassOf(context, parameters, m), in, gradients);
                 });
  }

  absl::Status Backward(const LayerContext& context, int unit, const ModelParameters& parameters,
                        GradientSpans gradients, MicroBatch& micro_batch) const override {
    TransformerMicroBatch& m = In(micro_batch);
    return m.Run({UnitCall::Kind::kBackward, unit, context.gradients},
                 [this, context, unit, parameters, gradients, &m](const ResidualStream&) {
                   return units_.Backward(PassOf(context, parameters, m), unit, gradients);
                 });
  }

  absl::Status BackwardInput(const LayerContext& context, int unit,
                             const ModelParameters& parameters, GradientSpans gradients,
                             MicroBatch& micro_batch) const override {
    TransformerMicroBatch& m = In(micro_batch);
    return m.Run({UnitCall::Kind::kBackwardInput, unit, context.gradients},
                 [this, context, unit, parameters, gradients, &m](const ResidualStream&) {
                   return units_.BackwardInput(PassOf(context, parameters, m), unit, gradients);
                 });
  }

  absl::Status BackwardWeights(const LayerContext& context, int unit, GradientSpans gradients,
                               MicroBatch& micro_batch) const override {
    TransformerMicroBatch& m = In(micro_batch);
    return m.Run({UnitCall::Kind::kBackwardWeights, unit, context.gradients},
                 [this, context, unit, gradients, &m](const ResidualStream& in) {
                   units_.BackwardWeights(PassOf(context, {}, m), unit, gradients);
                   return in;
                 });
  }

  absl::Status TakeResults(MicroBatch& micro_batch) const override {
    return In(micro_batch).TakeResults();
  }

 private:
  // Returns the tensors that are computed with in the type of computation; the embedding is read in
  // f32.
  static std::vector<int> Matrices(const TransformerTensors& tensors) {
    std::vector<int> matrices = {tensors.head};
    for (const BlockTensors& block : tensors.blocks) {
      for (const int matrix : block.Matrices()) {
        if (matrix != kNoTensor) matrices.push_back(matrix);
      }
    }
    return matrices;
  }

  static TransformerMicroBatch& In(MicroBatch& micro_batch) {
    return static_cast<TransformerMicroBatch&>(micro_batch);
  }

  TransformerPass PassOf(const LayerContext& context, const ModelParameters& parameters,
                         TransformerMicroBatch& m) const {
    const PassMemory memory = m.memory();
    return {.context = {.ops = memory.ops,
                        .type = type_,
                        .rows = memory.rows,
                        .labels = memory.loss.labels,
                        .router_sums = memory.router_sums,
                        .expert_loads = memory.expert_loads,
                        .pass = context.pass,
                        .seed = context.seed,
                        .clock = memory.clock,
                        .loss_scale = memory.loss_scale,
                        .gradients = context.gradients,
                        .split_backward = m.split_backward,
                        .group = context.tensor_group,
                        .sequence_parallel = context.sequence_parallel,
                        .context_group = context.context_group,
                        .context_exchange = context.context_exchange,
                        .expert_group = context.expert_group,
                        .rank_offsets = memory.rank_offsets,
                        .counting_group = context.counting_group},
            .parameters = parameters,
            .tokens = memory.tokens,
            .loss = memory.loss,
            .arrays = memory.arrays};
  }

  size_t Bytes(const LayerContext& context, int unit, const Batch& batch) const override {
    // Only extents are asked for.
    HostOps none;
    TokenRows rows = RowsOf(batch);
    if (context.context_group != nullptr) rows.length /= context.context_group->size();
    return boundary_.Bytes({.ops = none,
                            .type = type_,
                            .rows = rows,
                            .group = context.tensor_group,
                            .sequence_parallel = context.sequence_parallel});
  }

  absl::Status ReadOutput(const LayerContext& context, int unit, MicroBatch& micro_batch,
                          absl::Span<std::byte> to) const override {
    TransformerMicroBatch& m = In(micro_batch);
    return m.RunOnce([&](const ResidualStream& in) {
      const TransformerPass pass = PassOf(context, {}, m);
      boundary_.ReadOutput(pass.context, unit, in, pass.arrays, to);
      return in;
    });
  }

  absl::Status SetOutput(const LayerContext& context, int unit, absl::Span<const std::byte> from,
                         MicroBatch& micro_batch) const override {
    TransformerMicroBatch& m = In(micro_batch);
    // The pass begins here, and not with unit 0.
    m.Begin(context);
    return m.RunOnce([&](const ResidualStream&) {
      const TransformerPass pass = PassOf(context, {}, m);
      return boundary_.SetOutput(pass.context, unit, from, pass.arrays);
    });
  }

  absl::Status ReadGradient(const LayerContext& context, int unit, MicroBatch& micro_batch,
                            absl::Span<std::byte> to) const override {
    TransformerMicroBatch& m = In(micro_batch);
    return m.RunOnce([&](const ResidualStream& in) {
      const TransformerPass pass = PassOf(context, {}, m);
      boundary_.ReadGradient(pass.context, pass.arrays, to);
      return in;
    });
  }

  absl::Status SetGradient(const LayerContext& context, int unit, absl::Span<const std::byte> from,
                           MicroBatch& micro_batch) const override {
    TransformerMicroBatch& m = In(micro_batch);
    return m.RunOnce([&](const ResidualStream& in) {
      const TransformerPass pass = PassOf(context, {}, m);
      boundary_.SetGradient(pass.context, unit, from, pass.arrays,
                            unit == 0 ? nullptr : pass.arrays.product_gradients[unit - 1].down);
      return in;
    });
  }

  // Whole sequences of at most `context` tokens, with a label in [-1, V) each, and either no
  // positions or those of documents that begin in their sequence.
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
    if (length % (2 * context_ranks_) != 0 && context_ranks_ > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "A batch has sequences of ", length, " tokens, of which each of ", context_ranks_,
          " context ranks takes two chunks; ", 2 * context_ranks_, " must divide it."));
    }
    const bool has_positions = !batch.positions.empty();
    if (has_positions && static_cast<int64_t>(batch.positions.size()) != tokens) {
      return absl::InvalidArgumentError(
          absl::StrCat("A batch of ", tokens, " tokens has ", batch.positions.size(),
                       " positions; it must have one each, or none."));
    }
    for (int64_t i = 0; i < tokens; ++i) {
      if (has_positions && batch.positions[i] != 0 &&
          (i % length == 0 || batch.positions[i] != batch.positions[i - 1] + 1)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Token ", i, " of a batch is at position ", batch.positions[i],
            " of its document; it must be at 0, or follow the token before it in its sequence."));
      }
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
  const int context_ranks_;
  const std::unique_ptr<const TransformerBackend> backend_;
  const TransformerUnits units_;
  const StreamBoundary boundary_;
  ModelDescription description_;  // Const after construction.
};

absl::Status CheckDivisible(const TransformerShape& shape, const Mesh& mesh) {
  const int ranks = mesh.size(Axis::kTensor);
  if (ranks > 1 && shape.query_key_norm == TransformerShape::QueryKeyNorm::kWholeWidth) {
    return absl::InvalidArgumentError(
        absl::StrCat("parallelism.tensor is ", ranks,
                     ", but model.transformer.query_key_norm WHOLE_WIDTH normalizes the heads of "
                     "all ranks together; leave parallelism.tensor out."));
  }
  // Every tensor rank has all experts.
  const bool has_dense = shape.experts.experts == 0 || !shape.experts.dense_layers.empty();
  const struct {
    absl::string_view what;
    int64_t number;
    absl::string_view remedy;
  } divided[] = {
      {"heads", shape.heads, "take another number"},
      {"feed-forward columns", has_dense ? shape.feed_forward : ranks,
       "set model.transformer.feed_forward"},
      {"rows of the vocabulary", shape.vocabulary_rows(),
       "set model.transformer.pad_vocabulary_to"},
  };
  for (const auto& [what, number, remedy] : divided) {
    if (number % ranks == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("parallelism.tensor is ", ranks,
                                                   ", which does not divide the model's ", number,
                                                   " ", what, "; ", remedy, "."));
  }
  return LocalTensors(MakeTransformerTensors(shape).specs, {mesh.Only(kExpertAxes | Axis::kTensor)},
                      0)
      .status();
}

}  // namespace

std::unique_ptr<const Model> MakeTransformer(const TransformerShape& shape, const Mesh& mesh,
                                             DType type, Recompute recompute,
                                             std::unique_ptr<const TransformerBackend> backend) {
  return std::make_unique<Transformer>(shape, mesh, type, recompute, std::move(backend));
}

absl::StatusOr<std::unique_ptr<const Model>> CreateTransformer(const v1::TransformerSpec& spec,
                                                               const v1::ComputeSpec& compute,
                                                               const DatasetInfo& data,
                                                               const Mesh& mesh,
                                                               const AdapterShape& adapter) {
  if (data.vocabulary == 0 || data.labels_per_example <= 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.transformer reads sequences of tokens, but the data have ",
                     DescribeData(data), "; use data.sequences, or another model."));
  }
  MUSTER_ASSIGN_OR_RETURN(TransformerShape shape, ResolveTransformer(spec, data.vocabulary));
  shape.adapter = adapter;
  if (data.context > shape.context) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.transformer.context is ", shape.context, ", but the data was opened with ",
        data.context, " tokens a sequence; open it with RequiredContext of the model."));
  }
  MUSTER_RETURN_IF_ERROR(CheckDivisible(shape, mesh));
  const DType type = ActivationType(compute);
  const Recompute recompute = ResolveRecompute(compute);
  return MakeTransformer(shape, mesh, type, recompute,
                         std::make_unique<HostBackend>(ShapeOfRank(shape, mesh), type, recompute));
}

}  // namespace muster
