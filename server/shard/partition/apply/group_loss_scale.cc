#include "server/shard/partition/apply/group_loss_scale.h"

#include <tuple>

#include "proto/partition_state.pb.h"

namespace muster {
namespace {

bool IsLess(const v1::LossScale& a, const v1::LossScale& b) {
  return std::tuple(a.scale(), a.steps()) < std::tuple(b.scale(), b.steps());
}

}  // namespace

void GroupLossScale::Close(uint64_t ahead, const v1::ClosingLossScale& word) {
  if (closing_.size() <= ahead) closing_.resize(ahead + 1);
  v1::ClosingLossScale& all = closing_[ahead];
  if (word.overflowed()) all.set_overflowed(true);
  if (!all.has_if_finite() || IsLess(word.if_finite(), all.if_finite())) {
    *all.mutable_if_finite() = word.if_finite();
  }
  if (!all.has_if_overflowed() || IsLess(word.if_overflowed(), all.if_overflowed())) {
    *all.mutable_if_overflowed() = word.if_overflowed();
  }
}

void GroupLossScale::Complete() {
  // A clock of which no close told anything has changed the parameters.
  if (current_.has_value()) current_->set_left_out(false);
  if (closing_.empty()) return;
  const v1::ClosingLossScale& end = closing_.front();
  if (end.has_if_finite()) {
    current_.emplace();
    *current_->mutable_value() = end.overflowed() ? end.if_overflowed() : end.if_finite();
    current_->set_left_out(end.overflowed());
  }
  closing_.pop_front();
}

void GroupLossScale::Save(v1::PartitionState& state) const {
  if (current_.has_value()) *state.mutable_loss_scale() = *current_;
  for (const v1::ClosingLossScale& word : closing_) *state.add_closing_loss_scales() = word;
}

void GroupLossScale::Restore(const v1::PartitionState& state) {
  if (state.has_loss_scale()) current_ = state.loss_scale();
  closing_.assign(state.closing_loss_scales().begin(), state.closing_loss_scales().end());
}

}  // namespace muster
