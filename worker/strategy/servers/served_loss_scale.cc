#include "worker/strategy/servers/served_loss_scale.h"

#include <limits>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

void Store(const LossScale& value, v1::LossScale& to) {
  to.set_scale(value.scale);
  to.set_steps(value.steps);
}

// Returns the scale of a step that ended so and left `after`.
float ScaleBefore(StepEnd end, const LossScale& after) {
  if (end == StepEnd::kOverflowed) return after.scale * 2;
  return after.steps == 0 ? after.scale / 2 : after.scale;
}

// In an offer: of more steps than any other.
constexpr uint32_t kUnknownSteps = std::numeric_limits<uint32_t>::max();

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
  const v1::LossScale& value = reply.loss_scale().value();
  LossScale state{.scale = value.scale(), .steps = value.steps()};
  const bool decided = reply.slowest_clock() > clock;
  if (decided) {
    decided_ = {.clock = clock, .end = end, .after = state};
    state = {.scale = ScaleBefore(end, state), .steps = 0};
  }
  // The pass may have begun with what the clock's first answer told.
  if (heard_ == clock) return;
  heard_ = clock;
  if (unheard_.has_value() && !decided) {
    scaling_.Follow(*unheard_, end, state);
  } else {
    scaling_.GoOnWith(state);
  }
  unheard_.reset();
}

uint64_t ServedLossScale::Offer(uint64_t clock) const {
  const LossScale state = scaling_.state();
  // A partition that has completed the clock told of the scale alone.
  const uint32_t steps = Decides(clock) ? kUnknownSteps : state.steps;
  return uint64_t{absl::bit_cast<uint32_t>(state.scale)} << 32 | steps;
}

void ServedLossScale::TakeLeast(uint64_t offer) {
  const auto steps = static_cast<uint32_t>(offer);
  scaling_.GoOnWith({.scale = absl::bit_cast<float>(static_cast<uint32_t>(offer >> 32)),
                     .steps = steps == kUnknownSteps ? 0 : steps});
}

absl::StatusOr<StepEnd> ServedLossScale::TakeGradients(uint64_t clock,
                                                       const TensorSpec* overflowed) {
  const StepEnd mine = overflowed == nullptr ? StepEnd::kFinite : StepEnd::kOverflowed;
  const auto take_end = [&] {
    return scaling_.TakeEnd(
        clock, mine,
        overflowed == nullptr ? "" : absl::StrCat("the gradient of ", overflowed->name));
  };
  if (!shared()) {
    MUSTER_RETURN_IF_ERROR(take_end());
    return mine;
  }
  if (Decides(clock)) {
    // All partitions must decide alike, also where the parameters that come again are newer ones.
    word_->set_overflowed(decided_->end == StepEnd::kOverflowed);
    Store(decided_->after, *word_->mutable_if_finite());
    Store(decided_->after, *word_->mutable_if_overflowed());
    return decided_->end;
  }
  StepEnd end = mine;
  if (clock == former_.closed) {
    if (former_.closing) end = StepEnd::kFinite;
    if (former_.withdrawn) end = StepEnd::kOverflowed;
  }
  word_->set_overflowed(end == StepEnd::kOverflowed);
  Store(scaling_.StateAfter(StepEnd::kFinite), *word_->mutable_if_finite());
  Store(scaling_.StateAfter(StepEnd::kOverflowed), *word_->mutable_if_overflowed());
  if (mine == StepEnd::kOverflowed && end == mine) {
    MUSTER_RETURN_IF_ERROR(take_end());
  } else {
    unheard_ = clock;
  }
  return end;
}

void ServedLossScale::AddTo(v1::CloseClock& close) const {
  if (shared()) *close.mutable_loss_scale() = *word_;
}

}  // namespace muster
