#ifndef MUSTER_WORKER_DEVICE_DEVICE_STEP_EXCHANGE_H_
#define MUSTER_WORKER_DEVICE_DEVICE_STEP_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collectives/communicator.h"
#include "worker/device/device_update.h"
#include "worker/strategy/group/exchange/step_exchange.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// The one exchange of all ranks with which a step ends where ranks on devices hold different
// shards: of examples, and of the squares of their sums of gradients, which the devices have
// measured. Used by one thread.
class DeviceStepExchange {
 public:
  // `host`, of all ranks and of host memory, outlives the exchange. Each call may take `timeout`.
  DeviceStepExchange(Communicator& host, const MeshPosition& shard, absl::Duration timeout);

  // Exchanges what this rank has; a collective call. `squares` leaves out what lower tensor ranks
  // have, too. Returns examples and squares of all ranks, and nothing else.
  absl::StatusOr<DeviceUpdateStep> Run(uint64_t examples, double squares);

  // Returns the traffic of the exchanges so far.
  const CollectiveTraffic& traffic() const { return traffic_; }

 private:
  Communicator& host_;
  const bool counts_examples_;
  const absl::Duration timeout_;
  // The number of squares that each rank gives: one for each of the first ranks with each shard;
  // the others have the same.
  std::vector<size_t> squares_by_rank_;
  StepExchange exchange_;
  CollectiveTraffic traffic_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_STEP_EXCHANGE_H_
