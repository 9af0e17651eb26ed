#include "worker/strategy/local_strategy_for_testing.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {

absl::StatusOr<std::unique_ptr<LocalStrategy>> LocalStrategy::Create(const v1::TablesSchema& schema,
                                                                     LossScaling loss_scaling) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<ShardState> state, ShardState::Create(schema));
  return std::unique_ptr<LocalStrategy>(
      new LocalStrategy(std::move(state), std::move(loss_scaling)));
}

LocalStrategy::LocalStrategy(std::unique_ptr<ShardState> state, LossScaling loss_scaling)
    : state_(std::move(state)),
      loss_scaling_(std::move(loss_scaling)),
      copies_(state_->tables().tensors, {state_->parameters(), {}}),
      sums_(state_->trained_layout().elements()),
      gradients_(TensorSpans(state_->trained_layout(), state_->tables().tensors, sums_.values())),
      slices_(state_->PartSlices(sums_.values())) {
  for (const SparseTableSpec& table : state_->tables().sparse) rows_.emplace_back(table.dim);
}

absl::Status LocalStrategy::BeginStep(uint64_t clock) {
  if (clock != state_->clock()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a step begins at clock ", clock, ", but the parameters are at ", state_->clock()));
  }
  copies_.Outdate();
  micro_batches_ = 0;
  return absl::OkStatus();
}

absl::Status LocalStrategy::Acquire(int unit, Direction direction) {
  copies_.Refresh(unit);
  return absl::OkStatus();
}

absl::Status LocalStrategy::LookUp(MicroBatch& micro_batch) {
  for (size_t table = 0; table < rows_.size(); ++table) {
    SparseRows& sparse = micro_batch.sparse[table];
    sparse.rows.resize(sparse.keys.size() * rows_[table].dim());
    state_->LookUp(table, sparse.keys, absl::MakeSpan(sparse.rows));
  }
  return absl::OkStatus();
}

absl::Status LocalStrategy::BeforeBackward(uint64_t examples, SeriesPosition position) {
  if (++micro_batches_ == 1) {
    examples_ = 0;
    for (RowSum& rows : rows_) rows.Clear();
  }
  examples_ += examples;
  return absl::OkStatus();
}

absl::Status LocalStrategy::PushRows(MicroBatch& micro_batch) {
  for (size_t table = 0; table < rows_.size(); ++table) {
    rows_[table].Add(micro_batch.sparse[table].keys, micro_batch.sparse[table].gradients);
  }
  return absl::OkStatus();
}

absl::Status LocalStrategy::EndStep() {
  const uint64_t clock = state_->clock();
  const TensorSpec* const overflowed = loss_scaling_.Divide(state_->tables().tensors, gradients_);
  MUSTER_RETURN_IF_ERROR(loss_scaling_.TakeEnd(
      clock, overflowed == nullptr ? StepEnd::kFinite : StepEnd::kOverflowed,
      overflowed == nullptr ? "" : absl::StrCat("the gradient of ", overflowed->name)));
  if (overflowed != nullptr) {
    state_->set_clock(clock + 1);
    return absl::OkStatus();
  }
  const GradientSums sums = {examples_, slices_, rows_};
  MUSTER_ASSIGN_OR_RETURN(const NormClipping clipping, state_->Clipping(sums));
  counters_.gradient_norm = clipping.norm;
  state_->Apply(sums, clipping.scale, rate_factor_);
  return absl::OkStatus();
}

}  // namespace muster
