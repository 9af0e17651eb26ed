#ifndef MUSTER_WORKER_STRATEGY_GROUP_CUT_EXCHANGE_H_
#define MUSTER_WORKER_STRATEGY_GROUP_CUT_EXCHANGE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/strategy.h"

namespace muster {

// A collective call: the files of a cut that each rank wrote, or why it could not, become known to
// all. Returns all ranks' files in order of partition, on every rank; or the error of the first
// rank that had one, naming the rank, on every rank: as a failure without files where the cut may
// be written later; or the communicator's. Each call within it may take `timeout`.
absl::StatusOr<CutFiles> ExchangeCut(Communicator& communicator, absl::Duration timeout,
                                     const absl::StatusOr<std::vector<PartitionFile>>& mine);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_CUT_EXCHANGE_H_
