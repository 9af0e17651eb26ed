#ifndef MUSTER_COMMON_PARTITION_CUT_ORDER_H_
#define MUSTER_COMMON_PARTITION_CUT_ORDER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/loss_scale.h"
#include "common/base/payload.h"

namespace muster {

// What a Cut operation asks for, at the beginning of its payload: little-endian u32 step, u32 1 if
// a loss scale follows the base (otherwise 0), u64 base (its clock plus 1; 0: none), and then f32
// scale, u32 steps. An empty payload is kWhole without a base. What else a cut carries follows.
struct CutOrder {
  enum class Step : uint32_t {
    // Both below in one: takes the cut, writes it, and is answered when its file is durable;
    // without
    // a path, and with a message that says why, if it could not be written for now.
    kWhole = 0,
    // From every slot, before any push of that clock: answered, without a path, once all slots have
    // closed the clock and the partition holds a view of that moment. Training goes on from there.
    // Also answered, without a view, where one cannot be had any more since slots have gone on.
    kTake = 1,
    // From one slot, after its kTake was answered everywhere: has the view written, and is answered
    // when the file is durable; without a path, and with a message that says why, if the view, or
    // what a slot sent for it, is gone with an earlier life of the server, was never taken, or
    // could not be written for now (MayBeWrittenLater).
    kWrite = 2,
  };

  Step step = Step::kWhole;
  // kWhole, kWrite: rows that changed since the cut at this clock are enough. The partition writes
  // all nevertheless if it does not know them.
  absl::optional<uint64_t> base;
  // kWhole, kTake: the slot's, to be kept with the cut. A partition that one slot sends it to gets
  // it from all.
  absl::optional<LossScale> loss_scale = absl::nullopt;

  // Of the order in a payload that is not empty.
  size_t bytes() const { return sizeof(uint64_t) * (loss_scale.has_value() ? 3 : 2); }
};

Payload EncodeCutOrder(const CutOrder& order);

// InvalidArgument: neither empty nor an order (names what there is).
absl::StatusOr<CutOrder> ReadCutOrder(const Payload& payload);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_CUT_ORDER_H_
