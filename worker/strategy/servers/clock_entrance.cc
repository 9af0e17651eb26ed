#include "worker/strategy/servers/clock_entrance.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "common/base/payload.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

// Clocks that are closed at a time: the router keeps what is not acknowledged.
constexpr uint64_t kClosesUnderWay = 64;

}  // namespace

bool ClockEntrance::Entry::LeavesOut(uint32_t slot) const {
  return absl::c_linear_search(left_out, slot);
}

uint32_t ClockEntrance::Entry::FirstSlot() const {
  uint32_t slot = 0;
  while (LeavesOut(slot)) ++slot;
  return slot;
}

absl::StatusOr<ClockEntrance::Entry> ClockEntrance::Enter(uint64_t clock) {
  v1::ExchangeRequest request;
  request.set_clock(clock);
  request.mutable_enter();
  const ShardRouter::Handle operation =
      router_.Send(0, std::move(request), Payload(), ShardRouter::Order::kFree);
  MUSTER_RETURN_IF_ERROR(router_.Wait(operation));
  const v1::ExchangeReply& reply = *operation->result().reply;
  return Entry{.left_out = {reply.left_out().begin(), reply.left_out().end()},
               .newest_clock = std::max<uint64_t>(reply.fastest_clock(), clock + 1)};
}

absl::Status ClockEntrance::CloseWithout(uint64_t first, uint64_t end) {
  for (uint64_t clock = first; clock < end; ++clock) {
    for (uint32_t partition = 0; partition < partitions_; ++partition) {
      v1::ExchangeRequest request;
      request.set_clock(clock);
      v1::CloseClock& close = *request.mutable_close();
      close.set_no_dense(true);
      close.mutable_sparse_chunks()->Resize(static_cast<int>(sparse_tables_), 0);
      close.add_left_out(slot_);
      router_.Send(partition, std::move(request), Payload(), ShardRouter::Order::kLane);
    }
    if ((clock - first) % kClosesUnderWay == kClosesUnderWay - 1) {
      MUSTER_RETURN_IF_ERROR(router_.WaitForLanes());
    }
  }
  return router_.WaitForLanes();
}

}  // namespace muster
