#ifndef MUSTER_WORKER_STRATEGY_GROUP_ROW_EXCHANGE_H_
#define MUSTER_WORKER_STRATEGY_GROUP_ROW_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/tables/row_sum.h"
#include "worker/collectives/communicator.h"

namespace muster {

// Brings together what ranks did in a step besides dense gradients: how many examples, and which
// rows of sparse tables with what gradients. Three kinds of calls: all-gather of one i64 for the
// examples and one per table for its number of keys; then per table with any keys all-gather with
// unequal counts of the keys, and of the rows. A rank receives what all others touched:
// 8 bytes + 4 · dim for each key of each rank. Keys that several ranks touched are added up in rank
// order, so every rank has the same bits, and those of servers that sum by slot.
//
// Keeps its memory from step to step. Used by one thread.
class RowExchange {
 public:
  // A collective call: `mine` are this rank's rows by table, `sums` (cleared first) become those of
  // all ranks. Returns the examples of all ranks. Each call may take `timeout`. Errors are the
  // communicator's.
  absl::StatusOr<uint64_t> Run(Communicator& communicator, absl::Duration timeout,
                               uint64_t examples, absl::Span<const RowSum> mine,
                               absl::Span<RowSum> sums);

 private:
  absl::Status GatherTable(Communicator& communicator, absl::Duration timeout, const RowSum& mine,
                           RowSum& sum);

  // One per rank: keys of a table.
  std::vector<size_t> counts_;
  std::vector<int64_t> heads_;
  std::vector<uint64_t> keys_;
  std::vector<float> rows_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_ROW_EXCHANGE_H_
