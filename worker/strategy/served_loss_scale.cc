#include "worker/strategy/served_loss_scale.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

void Store(const LossScale& value, v1::LossScale& to) {
  to.set_scale(value.scale);
  to.set_steps(value.steps);
}

}  // namespace

ServedLossScale::ServedLossScale(LossScaling scaling, Owner owner) : scaling_(std::move(scaling)) {
  if (owner == Owner::kGroup && scaling_.searches()) {
    word_ = std::make_unique<v1::ClosingLossScale>();
  }
}

ServedLossScale::~ServedLossScale() = default;

absl::optional<LossScale> ServedLossScale::of_slot() const {
  if (shared() || !scaling_.searches()) return absl::nullopt;
  return scaling_.state();
}

void ServedLossScale::TakeReply(uint64_t clock, const v1::ExchangeReply& reply) {
  if (!shared() || !reply.has_loss_scale()) return;
  const StepEnd end = reply.loss_scale().left_out() ? StepEnd::kOverflowed : StepEnd::kFinite;
  if (reply.slowest_clock() > clock) {
    decided_ = {clock, end};
    return;
  }
  if (heard_ == clock) return;
  heard_ = clock;
  const v1::LossScale& value = reply.loss_scale().value();
  const LossScale state{.scale = value.scale(), .steps = value.steps()};
  if (unheard_.has_value()) {
    scaling_.Follow(*unheard_, end, state);
  } else {
    scaling_.GoOnWith(state);
  }
  unheard_.reset();
}

absl::StatusOr<StepEnd> ServedLossScale::TakeGradients(uint64_t clock,
                                                       absl::Span<const TensorSpec> tensors,
                                                       GradientSpans gradients) {
  if (!shared()) return scaling_.EndStep(clock, tensors, gradients);
  const TensorSpec* const overflowed = scaling_.Divide(tensors, gradients);
  const StepEnd mine = overflowed == nullptr ? StepEnd::kFinite : StepEnd::kOverflowed;
  StepEnd end = mine;
  // All partitions must decide alike, also where the parameters that come again are newer ones.
  if (decided_.has_value() && decided_->first == clock) end = decided_->second;
  word_->set_overflowed(end == StepEnd::kOverflowed);
  Store(scaling_.StateAfter(StepEnd::kFinite), *word_->mutable_if_finite());
  Store(scaling_.StateAfter(StepEnd::kOverflowed), *word_->mutable_if_overflowed());
  if (end == StepEnd::kFinite) {
    unheard_ = clock;
  } else {
    const std::string what =
        overflowed == nullptr ? "a gradient" : absl::StrCat("the gradient of ", overflowed->name);
    MUSTER_RETURN_IF_ERROR(scaling_.TakeEnd(clock, end, what));
  }
  return mine;
}

void ServedLossScale::AddTo(v1::CloseClock& close) const {
  if (shared()) *close.mutable_loss_scale() = *word_;
}

}  // namespace muster
