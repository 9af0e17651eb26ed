#ifndef MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_STEP_EXCHANGE_H_
#define MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_STEP_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/collectives/communicator.h"

namespace muster {

// One rank's share of a step, once its sums of dense gradients are complete.
struct StepShare {
  // The number of examples in its own batch. The first tensor rank of the first stage counts those
  // of its data rank.
  uint64_t examples = 0;
  // The number of the first tensor whose gradient sum is not finite after scaling; -1: none.
  int overflowed = -1;
  // Squared norms of the cells that it owns. Empty if cells_by_rank is empty.
  absl::Span<const double> cells;
};

// The shares of all ranks, combined.
struct StepTotal {
  uint64_t examples = 0;
  int overflowed = -1;
  // Squared norms of cells, in order of rank.
  absl::Span<const double> cells;
};

// Brings together what the ranks of a job know of a step: the exchange after which each of them
// makes the step. As every rank comes to it with complete sums only, none steps before the sums of
// all are complete, whatever groups they were made in. Calls: all-gather of two i64, the examples
// and the overflow; then, where norms are asked for, all-gather of the cells' norms, 8 bytes each.
//
// Keeps its memory from step to step. Used by one thread.
class StepExchange {
 public:
  // Exchanges the ranks' shares; a collective call of all ranks. `cells_by_rank` has the number of
  // cells that each rank gives; empty: no norms are needed. The result is valid until the next
  // call. Each call within it may take `timeout`. Errors are the communicator's.
  absl::StatusOr<StepTotal> Run(Communicator& communicator, absl::Duration timeout,
                                const StepShare& mine, absl::Span<const size_t> cells_by_rank);

 private:
  std::vector<int64_t> heads_;
  std::vector<double> cells_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_STEP_EXCHANGE_H_
