#ifndef MUSTER_SERVER_SHARD_PARTITION_APPLY_GROUP_LOSS_SCALE_H_
#define MUSTER_SERVER_SHARD_PARTITION_APPLY_GROUP_LOSS_SCALE_H_

#include <cstdint>
#include <deque>

#include "absl/types/optional.h"
#include "proto/parameter_service.pb.h"

namespace muster {

namespace v1 {
class PartitionState;
}  // namespace v1

// The loss scale that the slots of an f16 job share under BSP, as one partition knows it. Workers
// find the scale (worker/nn/loss_scaler.h): each close brings the scale for both ends of its clock,
// and the partition keeps the one that came true. All partitions get the same closes, so they leave
// out the same clocks. Not thread-safe.
class GroupLossScale {
 public:
  // Takes a slot's word on the clock that is `ahead` clocks after the next one to complete.
  void Close(uint64_t ahead, const v1::ClosingLossScale& word);

  // Returns whether the next clock to complete is left out. REQUIRES: all slots have closed it.
  bool leaves_out() const { return !closing_.empty() && closing_.front().overflowed(); }
  // Notes that the clock completes.
  void Complete();

  // Returns the loss scale at the number of completed clocks; absent: no close told of one yet.
  const absl::optional<v1::GroupLossScale>& current() const { return current_; }

  // Returns whether any close has told of one.
  bool told() const { return current_.has_value() || !closing_.empty(); }

  // Adds the scale and the words to a state.
  void Save(v1::PartitionState& state) const;
  void Restore(const v1::PartitionState& state);

 private:
  absl::optional<v1::GroupLossScale> current_;
  // All slots' words in one, for each clock from the next one to complete on; without values where
  // no slot told of a scale. Empty in other jobs.
  std::deque<v1::ClosingLossScale> closing_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_APPLY_GROUP_LOSS_SCALE_H_
