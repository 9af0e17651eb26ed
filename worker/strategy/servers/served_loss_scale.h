#ifndef MUSTER_WORKER_STRATEGY_SERVERS_SERVED_LOSS_SCALE_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_SERVED_LOSS_SCALE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/loss_scale.h"
#include "common/partition/tensor_spec.h"
#include "worker/nn/loss_scaling.h"
#include "worker/strategy/servers/shard_connections.h"

namespace muster {

namespace v1 {
class CloseClock;
class ClosingLossScale;
class ExchangeReply;
}  // namespace v1

// A slot's loss scale where parameters are on servers. Under SSP and ASP it is the slot's own,
// which ends each step by its own gradients. Under BSP it is the group's:
//
//   the close of clock c    tells every partition whether this slot's gradients overflowed, and the
//                           loss scale that follows in either case;
//   a pull at clock c + 1   tells every slot what came of all closes.
//
// So a task that takes a slot over goes on with the group's scale from its first pull on, once a
// clock is complete. Before that its scale is that of slot 0 in the checkpoint, or the first one.
// Slots may begin with different scales, where one of them cannot read the checkpoint: the least is
// the group's from the first complete clock on.
//
// All closes of a slot must say the same of a clock, or partitions would differ in whether it is
// left out. So a slot sends its first close of a clock when all its pushes of it are in, and a task
// that takes a slot over says what its former task has said, whatever its own gradients came to.
//
// Ranks of one data rank multiply parts of one gradient, so they agree on the scale with which each
// clock begins (Offer, TakeLeast). Not thread-safe.
class ServedLossScale {
 public:
  enum class Owner { kSlot, kGroup };

  ServedLossScale(LossScaling scaling, Owner owner);
  ~ServedLossScale();

  const LossScaling& scaling() const { return scaling_; }
  // Returns the slot's own scale, for cuts; absent: it is fixed, or the group's, which servers
  // know.
  absl::optional<LossScale> of_slot() const;

  // Goes on with a checkpoint's scale.
  void GoOnWith(const LossScale& state) { scaling_.GoOnWith(state); }
  // Takes what former tasks of the slot have left.
  void TakeFormer(const SlotContributions& former) { former_ = former; }
  // Takes what the answer to a dense pull at `clock` tells of the group. The first answer of a
  // clock sets the scale; later ones leave it, since the pass may have begun with it.
  void TakeReply(uint64_t clock, const v1::ExchangeReply& reply);
  // Returns the scale that the slot would begin the clock with, as a number below 2^63: the less
  // the number, the less the scale. REQUIRES: shared().
  uint64_t Offer(uint64_t clock) const;
  // Begins the clock with the least of what several slots offer. REQUIRES: shared().
  void TakeLeast(uint64_t offer);
  // Takes what this slot's gradients at `clock` came to, divided by the scale
  // (LossScaling::Divide): the first tensor whose gradient is not finite; null: all are finite.
  // Returns how the clock ends as far as the slot is concerned: otherwise if a former task of the
  // slot has said so, or a partition has completed the clock. OutOfRange: there is no smaller
  // scale.
  absl::StatusOr<StepEnd> TakeGradients(uint64_t clock, const TensorSpec* overflowed);
  // Returns whether closes tell what the slot's gradients came to.
  bool shared() const { return word_ != nullptr; }
  // Adds what the gradients came to to the slot's close of their clock.
  void AddTo(v1::CloseClock& close) const;

 private:
  // Returns whether a partition has told how this clock, which the slot repeats, ended.
  bool Decides(uint64_t clock) const { return decided_.has_value() && decided_->clock == clock; }

  LossScaling scaling_;
  // This slot's word to the group on the last clock; null where the slot's scale is its own, or is
  // not found.
  std::unique_ptr<v1::ClosingLossScale> word_;
  // The last clock whose start the group has told of.
  absl::optional<uint64_t> heard_;
  // A clock that was finite here, and whose end is not known yet.
  absl::optional<uint64_t> unheard_;
  // A clock that this slot repeats, with its end and the scale after it, as told by a partition
  // that has completed the clock.
  struct Decided {
    uint64_t clock = 0;
    StepEnd end = StepEnd::kFinite;
    LossScale after;
  };
  absl::optional<Decided> decided_;
  // The contributions of the slot's former tasks, as servers had them when its task began.
  SlotContributions former_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_SERVED_LOSS_SCALE_H_
