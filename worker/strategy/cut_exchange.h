#ifndef MUSTER_WORKER_STRATEGY_CUT_EXCHANGE_H_
#define MUSTER_WORKER_STRATEGY_CUT_EXCHANGE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/loss_scale.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/strategy.h"

namespace muster {

// A collective call: the files of a cut that each rank wrote, or why it could not, become known to
// all. Returns all ranks' files in order of partition, on every rank; or the error of the first
// rank that had one, naming the rank, on every rank: as a failure without files where the cut may
// be written later; or the communicator's. Each call within it may take `timeout`.
absl::StatusOr<CutFiles> ExchangeCut(Communicator& communicator, absl::Duration timeout,
                                     const absl::StatusOr<std::vector<PartitionFile>>& mine);

// A collective call: all ranks' loss scales become known to all, in order of rank. Errors are the
// communicator's.
absl::StatusOr<std::vector<SlotLossScale>> GatherLossScales(Communicator& communicator,
                                                            absl::Duration timeout,
                                                            const SlotLossScale& mine);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_CUT_EXCHANGE_H_
