#ifndef MUSTER_COMMON_PARTITION_CUT_ORDER_H_
#define MUSTER_COMMON_PARTITION_CUT_ORDER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/loss_scale.h"
#include "common/base/payload.h"

namespace muster {

// The order at the beginning of a Cut operation's payload: little-endian u32 step, u32 1 if a loss
// scale follows the base (otherwise 0), u64 base (its clock plus 1; 0: none), and then f32 scale,
// u32 steps. An empty payload is kWhole without a base. What else a cut carries follows the order.
struct CutOrder {
  enum class Step : uint32_t {
    // Does both of the following: takes the cut, writes it, and is answered when its file is
    // durable; without a path, and with a message that says why, if the file could not be written
    // for now.
    kWhole = 0,
    // Sent by every slot, before any push of that clock. Answered, without a path, once all slots
    // have closed the clock and the partition holds a view of that moment; training then goes on.
    // Also answered, without a view, if slots have gone on and none can be had any more.
    kTake = 1,
    // Sent by one slot, after its kTake was answered everywhere. Has the view written, and is
    // answered when the file is durable; without a path, and with a message that says why, if the
    // view, or what a slot sent for it, is gone with an earlier life of the server, was never
    // taken, or could not be written for now (MayBeWrittenLater).
    kWrite = 2,
  };

  Step step = Step::kWhole;
  // kWhole, kWrite: rows that changed since the cut at this clock are enough. A partition that does
  // not know them writes all rows.
  absl::optional<uint64_t> base;
  // kWhole, kTake: the slot's loss scale, kept with the cut. A partition gets it from no slot or
  // from all.
  absl::optional<LossScale> loss_scale = absl::nullopt;

  // Returns the order's bytes in a payload that is not empty.
  size_t bytes() const { return sizeof(uint64_t) * (loss_scale.has_value() ? 3 : 2); }
};

Payload EncodeCutOrder(const CutOrder& order);

// Reads an order. InvalidArgument: the payload is neither empty nor an order (says what there is).
absl::StatusOr<CutOrder> ReadCutOrder(const Payload& payload);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_CUT_ORDER_H_
