#ifndef MUSTER_WORKER_STRATEGY_SERVERS_SERVED_LOSS_SCALE_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_SERVED_LOSS_SCALE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/base/loss_scale.h"
#include "common/partition/tensor_spec.h"
#include "worker/nn/loss_scaling.h"

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
// the group's from the first complete clock on. Not thread-safe.
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
  // Takes what the answer to a dense pull at `clock` tells of the group. The first answer of a
  // clock sets the scale; later ones leave it, since the pass may have begun with it.
  void TakeReply(uint64_t clock, const v1::ExchangeReply& reply);
  // Takes what this slot's gradients at `clock` came to, divided by the scale
  // (LossScaling::Divide): the first tensor whose gradient is not finite; null: all are finite.
  // OutOfRange: there is no smaller scale.
  absl::Status TakeGradients(uint64_t clock, const TensorSpec* overflowed);
  // Returns whether closes tell what the slot's gradients came to.
  bool shared() const { return word_ != nullptr; }
  // Takes that a former task of the slot had withdrawn gradients of the clock, so that zeros stand
  // for them on some partitions: the clock is left out, whatever this task's gradients came to,
  // unless a partition has decided otherwise already. REQUIRES: shared(), after TakeGradients.
  void TakeWithdrawal(uint64_t clock);
  // Adds what the gradients came to to the slot's close of their clock.
  void AddTo(v1::CloseClock& close) const;

 private:
  LossScaling scaling_;
  // For the group, on the last clock; null where the slot's scale is its own, or is not found.
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
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_SERVED_LOSS_SCALE_H_
