#include "worker/nn/transformer/host_backend.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/compute/host_ops.h"
#include "common/kernels/transformer/rotary.h"
#include "worker/nn/context_group.h"
#include "worker/nn/counting_group.h"
#include "worker/nn/expert_group.h"
#include "worker/nn/tensor_group.h"
#include "worker/nn/transformer/arrays/transformer_memory.h"
#include "worker/nn/transformer/attention/context_tokens.h"

namespace muster {
namespace {

// Returns the table of rotary positions; empty where the shape has none.
std::vector<float> RotaryTableOf(const TransformerShape& shape) {
  if (shape.positions != TransformerShape::Positions::kRotary) return {};
  std::vector<float> table(shape.context * shape.head_dim());
  FillRotaryTable(shape.context, shape.head_dim(), shape.rotary, table.data());
  return table;
}

class HostMicroBatch final : public TransformerMicroBatch {
 public:
  HostMicroBatch(const TransformerShape& shape, DType type, Recompute recompute)
      : last_unit_(shape.units() - 1),
        offsets_of_rank_(shape.layers * (shape.experts.experts + 1)),
        memory_(shape, type, recompute) {
    expert_loads.resize(shape.layers * shape.expert_extents().loads_of_block());
  }

  absl::Status Load(const Batch& batch) override {
    tokens_ = batch.tokens;
    positions_ = batch.positions;
    whole_ = RowsOf(batch);
    if (!positions_.empty()) whole_.token_positions = positions_.data();
    return absl::OkStatus();
  }

  void Begin(const LayerContext& context) override {
    clock_ = {.clock = context.clock, .first_example = context.first_example};
    loss_scale_ = context.loss_scale;
    sums_ = {};
    router_sums = {};
    std::fill(expert_loads.begin(), expert_loads.end(), 0);
    group_ = context.tensor_group;
    context_group_ = context.context_group;
    expert_group_ = context.expert_group;
    counting_group_ = context.counting_group;
    if (expert_group_ != nullptr) rank_offsets_.resize(offsets_of_rank_ * expert_group_->size());
    if (context_group_ != nullptr) own_.Take(*context_group_, whole_, tokens_, labels, positions_);
    memory_.Prepare({.ops = ops_,
                     .rows = rows(),
                     .pass = context.pass,
                     .split_backward = split_backward,
                     .group = group_,
                     .sequence_parallel = context.sequence_parallel,
                     .context_group = context_group_,
                     .context_exchange = context.context_exchange,
                     .expert_group = expert_group_,
                     .counting_group = counting_group_},
                    units);
  }

  PassMemory memory() override {
    return {.ops = ops_,
            .rows = rows(),
            .tokens = {.tokens = shares() ? own_.tokens().data() : tokens_.data()},
            .loss = {.labels = shares() ? own_.labels().data() : labels.data(), .sums = &sums_},
            .router_sums = &router_sums,
            .expert_loads = expert_loads.data(),
            .rank_offsets = rank_offsets_.data(),
            .clock = &clock_,
            .loss_scale = &loss_scale_,
            .arrays = memory_.arrays()};
  }

  absl::Status Run(const UnitCall& call, Body body) override {
    handed_on = body(handed_on);
    if (call.unit == last_unit_ && shares() && rows().sequences > 0) {
      context_group_->Sum(DType::kF64, kHeadSums, &sums_);
    }
    return TakeResults();
  }

  absl::Status RunOnce(Body body) override {
    handed_on = body(handed_on);
    return TakeResults();
  }

  absl::Status TakeResults() override {
    loss_sum = sums_.loss;
    correct = static_cast<int64_t>(sums_.correct);
    if (group_ != nullptr && !group_->status().ok()) return group_->status();
    if (shares() && !context_group_->status().ok()) return context_group_->status();
    if (expert_group_ != nullptr && !expert_group_->status().ok()) return expert_group_->status();
    if (counting_group_ != nullptr && !counting_group_->status().ok()) {
      return counting_group_->status();
    }
    return ops_.stream().status();
  }

 private:
  bool shares() const { return context_group_ != nullptr; }
  const TokenRows& rows() const { return shares() ? own_.rows() : whole_; }

  const int last_unit_;
  const int64_t offsets_of_rank_;
  HostOps ops_;
  // The tokens of whole sequences, [B, T].
  std::vector<int32_t> tokens_;
  // [B, T], or empty.
  std::vector<int32_t> positions_;
  TokenRows whole_;
  // This rank's, if context ranks share out sequences.
  ContextTokens own_;
  // The clock of the pass's dropout.
  DropoutClock clock_;
  float loss_scale_ = 1;
  TensorGroup* group_ = nullptr;
  ContextGroup* context_group_ = nullptr;
  ExpertGroup* expert_group_ = nullptr;
  CountingGroup* counting_group_ = nullptr;
  std::vector<int32_t> rank_offsets_;
  HeadSums sums_;
  TransformerMemory memory_;
};

}  // namespace

HostBackend::HostBackend(const TransformerShape& shape, DType type, Recompute recompute)
    : shape_(shape), type_(type), recompute_(recompute), rotary_table_(RotaryTableOf(shape)) {}

std::unique_ptr<TransformerMicroBatch> HostBackend::NewMicroBatch() const {
  return std::make_unique<HostMicroBatch>(shape_, type_, recompute_);
}

}  // namespace muster
