#include "worker/device/passes/device_backend.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/kernels/transformer/head_sums.h"
#include "worker/nn/context_group.h"
#include "worker/nn/transformer/attention/context_tokens.h"

namespace muster {
namespace {

uint64_t NameOf(const UnitCall& call) {
  return static_cast<uint64_t>(call.unit) << 4 | static_cast<uint64_t>(call.kind) << 1 |
         (call.gradients == Accumulation::kAdd ? 1 : 0);
}

class DeviceMicroBatch final : public TransformerMicroBatch {
 public:
  DeviceMicroBatch(DevicePasses& passes, const TransformerShape& shape, ContextGroup* context_group)
      : passes_(passes),
        last_unit_(shape.units() - 1),
        context_group_(context_group),
        pass_(passes.NextSet()) {
    expert_loads.resize(shape.layers * shape.expert_extents().loads_of_block());
  }

  absl::Status Load(const Batch& batch) override {
    if (split_backward && !passes_.splits_backward()) {
      return absl::InvalidArgumentError(
          "the step's plan has backward in two actions (StageOrder::kZeroBubble), for which "
          "these passes keep no gradients of products; make them with "
          "DeviceComputeOptions::split_backward");
    }
    const absl::optional<size_t> arrays = passes_.ArraysOf(units);
    if (!arrays.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a micro-batch of units from ", units.first, " to before ", units.end,
                       ", for which these passes have no arrays; make them with "
                       "DeviceComputeOptions::chunks"));
    }
    // Calls that were put off ask for their arrays when they are queued.
    if (arrays_ != *arrays) passes_.stream();
    arrays_ = *arrays;
    const TokenArrays own = TokensOf(batch);
    MUSTER_ASSIGN_OR_RETURN(rows_, passes_.Take(own));
    const DeviceBatchArrays& batch_arrays = passes_.set(pass_).batch;
    if (own.rows.token_positions != nullptr) rows_.token_positions = batch_arrays.positions;
    if (own.rows.whole_positions != nullptr) rows_.whole_positions = batch_arrays.whole_positions;
    return absl::OkStatus();
  }

  void Begin(const LayerContext& context) override {
    kind_ = context.pass;
    group_ = context.context_group;
    passes_.Begin(
        rows_, {.clock = {context.clock, context.first_example}, .loss_scale = context.loss_scale},
        kind_, pass_);
  }

  PassMemory memory() override {
    const DeviceActivationStash& set = passes_.set(pass_);
    const DeviceBatchArrays& batch = set.batch;
    return {.ops = passes_.ops(),
            .rows = rows_,
            .tokens = {.tokens = batch.tokens,
                       .order = batch.token_order,
                       .position_order = batch.position_order},
            .loss = {.labels = batch.labels, .sums = passes_.sums(kind_)},
            .router_sums = passes_.memory().router_sums,
            .expert_loads = passes_.memory().expert_loads,
            .rank_offsets = passes_.rank_offsets(pass_),
            .clock = &batch.record->clock,
            .loss_scale = &batch.record->loss_scale,
            .arrays = set.arrays[arrays_]};
  }

  absl::Status Run(const UnitCall& call, Body body) override {
    passes_.Run(NameOf(call),
                call.unit == last_unit_ ? ThenQueueSums(std::move(body)) : std::move(body), pass_);
    if (call.unit == 0 && call.kind != UnitCall::Kind::kForward) passes_.stream();
    return passes_.status();
  }

  absl::Status RunOnce(Body body) override {
    passes_.RunOnce(body, pass_);
    return passes_.status();
  }

  absl::Status TakeResults() override {
    if (kind_ == Pass::kTraining) {
      MUSTER_RETURN_IF_ERROR(passes_.AddRouters(router_sums, absl::MakeSpan(expert_loads)));
    }
    MUSTER_ASSIGN_OR_RETURN(const HeadSums sums, passes_.TakeSums(kind_));
    loss_sum = sums.loss;
    correct = static_cast<int64_t>(sums.correct);
    return absl::OkStatus();
  }

 private:
  // Returns this rank's tokens of the batch.
  TokenArrays TokensOf(const Batch& batch) {
    TokenRows whole = RowsOf(batch);
    if (!batch.positions.empty()) whole.token_positions = batch.positions.data();
    if (context_group_ == nullptr) return {whole, batch.tokens, batch.labels};
    own_.Take(*context_group_, whole, batch.tokens, batch.labels, batch.positions);
    return {own_.rows(), own_.tokens(), own_.labels()};
  }

  Body ThenQueueSums(Body body) const {
    // The group is the pass's, which makes no calls while passes warm up.
    return [&passes = passes_, kind = kind_, group = group_,
            body = std::move(body)](const ResidualStream& in) {
      const ResidualStream out = body(in);
      passes.QueueSums(kind, group);
      return out;
    };
  }

  DevicePasses& passes_;
  const int last_unit_;
  ContextGroup* const context_group_;
  // If context ranks share out sequences.
  ContextTokens own_;
  TokenRows rows_;
  // The place of the present units' arrays in the activation stash.
  size_t arrays_ = 0;
  Pass kind_ = Pass::kTraining;
  // LayerContext::context_group.
  ContextGroup* group_ = nullptr;
  DeviceRecorder::Pass pass_;
};

}  // namespace

std::unique_ptr<TransformerMicroBatch> DeviceBackend::NewMicroBatch() const {
  return std::make_unique<DeviceMicroBatch>(passes_, shape_, context_group_);
}

}  // namespace muster
