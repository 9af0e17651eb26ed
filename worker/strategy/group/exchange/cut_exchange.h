#ifndef MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_CUT_EXCHANGE_H_
#define MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_CUT_EXCHANGE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/strategy.h"

namespace muster {

// Tells all ranks which files of a cut each rank wrote, or why it could not. A collective call.
// Returns all ranks' files in order of partition. If a rank failed, every rank returns the first
// such rank's error, which names the rank; if the cut may be written later, it is a failure without
// files. Otherwise errors are the communicator's. Each call within it may take `timeout`.
absl::StatusOr<CutFiles> ExchangeCut(Communicator& communicator, absl::Duration timeout,
                                     const absl::StatusOr<std::vector<PartitionFile>>& mine);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_CUT_EXCHANGE_H_
