#ifndef MUSTER_SERVER_SHARD_HISTORY_HISTORY_WORKLOAD_H_
#define MUSTER_SERVER_SHARD_HISTORY_HISTORY_WORKLOAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/payload.h"
#include "common/base/philox.h"
#include "common/partition/dense_layout.h"
#include "proto/parameter_service.pb.h"

namespace muster {

// The history checker's small job. Gradients are positive integers, functions of slot, clock and
// element alone, and rates make every sum exact in f32. So the values after any contributions are
// known, a lost or doubled one shows, and more contributions always mean lower values.
class HistoryWorkload {
 public:
  struct Options {
    uint32_t slots = 1;
    uint32_t partitions = 3;
    uint64_t clocks = 6;
    // Bound of staleness; absent: ASP.
    std::optional<uint64_t> bound = 0;
    bool deterministic = false;
    bool durable = false;
    // Gradients are no integers: the order of sums shows in their bits; values are not known.
    bool inexact = false;
    // In some clocks the gradients of some slots overflow, as in f16. For BSP.
    bool overflows = false;
    // The number of micro-batches whose dense gradients slots push one by one; 0: slots push sums.
    // For BSP.
    uint32_t micro_batches = 0;
    // Options of the sparse table. Admission and expiry are for BSP, where alone the clocks that
    // have pushed a key are the same at every version.
    v1::SparseTableOptions rows;

    // Returns what JobTables::keeps_previous() returns for the job.
    bool keeps_previous() const { return deterministic || micro_batches > 0; }
  };

  using Message = std::pair<v1::ExchangeRequest, Payload>;
  // A partition's dense elements in order of its blocks, then the rows of its keys.
  using Values = std::vector<float>;

  explicit HistoryWorkload(Options options);

  const Options& options() const { return options_; }
  const v1::TablesSchema& schema() const { return open_.schema(); }

  v1::OpenTablesRequest OpenRequest(uint64_t generation,
                                    const std::vector<uint32_t>& partitions) const;

  // Return the messages of one clock, without generation and incarnation. Some contributions are a
  // close alone. `random` divides dense pushes into runs; chunks are the same when repeated.
  std::vector<Message> Pulls(uint32_t slot, uint64_t clock, uint32_t partition) const;
  std::vector<Message> Contribution(uint32_t slot, uint64_t clock, uint32_t partition,
                                    uint64_t random) const;

  // Returns the number of floats of the answer to a partition's dense pull.
  size_t DenseElements(uint32_t partition) const { return elements_[partition].size(); }

  // Returns the group's loss scale once so many clocks are complete. REQUIRES: some are.
  v1::GroupLossScale LossScaleAfter(uint64_t clocks) const;

  // Returns the answers to Pulls once exactly the contributions below `clocks` (by slot) are in.
  Values After(uint32_t partition, const std::vector<uint64_t>& clocks) const;

 private:
  float Gradient(uint32_t slot, uint64_t clock, uint64_t element) const;
  // Returns a micro-batch's part of a dense gradient.
  float GradientOf(uint32_t micro_batch, uint32_t slot, uint64_t clock, uint64_t element) const;
  bool Touches(uint32_t slot, uint64_t clock, uint64_t key) const;
  // Returns the values of a key's row after so many clocks of every slot, by the row options.
  Values RowAfter(uint32_t partition, uint64_t key, uint64_t clocks) const;
  // Returns whether the slot has no gradients for the partition at that clock, only examples.
  bool Idle(uint32_t slot, uint64_t clock, uint32_t partition) const;
  bool Overflows(uint32_t slot, uint64_t clock) const;
  // Returns whether the slot's contribution to the partition counts.
  bool Counts(uint32_t slot, uint64_t clock, uint32_t partition) const {
    return !Idle(slot, clock, partition) && !LossScaleAfter(clock + 1).left_out();
  }
  // Adds the pushes of the partition's blocks to `messages`; those of one micro-batch, if slots
  // push micro-batches.
  void AppendDense(uint32_t slot, uint64_t clock, uint32_t partition, uint32_t micro_batch,
                   uint64_t random, std::vector<Message>& messages) const;
  uint64_t Examples(uint32_t slot) const;
  v1::ExchangeRequest Request(uint32_t slot, uint64_t clock, uint32_t partition) const;

  const Options options_;
  const Philox random_;
  v1::OpenTablesRequest open_;
  DenseLayout layout_;
  // Elements and keys of each partition.
  std::vector<std::vector<uint64_t>> elements_;
  std::vector<std::vector<uint64_t>> keys_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_HISTORY_HISTORY_WORKLOAD_H_
