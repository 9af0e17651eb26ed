#ifndef MUSTER_WORKER_STRATEGY_SERVERS_SERVED_ROWS_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_SERVED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/base/clock.h"
#include "common/partition/tensor_spec.h"
#include "common/tables/row_sum.h"
#include "common/tensor/dtype.h"
#include "worker/nn/sparse_rows.h"
#include "worker/strategy/series_position.h"
#include "worker/strategy/servers/row_arrays.h"
#include "worker/strategy/servers/row_groups.h"
#include "worker/strategy/servers/shard_router.h"
#include "worker/strategy/training_state.h"

namespace muster {

// A worker's rows of sparse tables: it pulls those of each micro-batch, and pushes the sums of a
// step's gradients.
//
//   AskFor, LookUp   one pull per partition and message, outside the lanes
//   Push             gradients of a step's micro-batches add up here. Those of the last one leave
//                    with the sums, in the partition's lane, before the close that counts them
//
// If the wire's type is smaller than f32, rows travel as halves (row_groups.h). All spans of rows
// are by sparse table. Used by one thread.
class ServedRows {
 public:
  struct Options {
    uint32_t slot = 0;
    // The job's seed, of which the random bits of rounded rows are made.
    uint64_t seed = 0;
    DType wire = DType::kF32;
    // The most bytes of a message; a single row may have more.
    uint64_t message_bytes = 0;
  };
  // These are the parts that rows are moved with. All outlive this object, except that the router
  // may be made later and end earlier.
  struct Parts {
    ShardRouter& router;
    absl::Span<const SparseTableSpec> tables;
    uint32_t partitions = 0;
    StrategyCounters& counters;
    const Clock& clock;
  };

  ServedRows(const Parts& parts, const Options& options);

  // Begins the clock, whose micro-batches have added nothing so far.
  void BeginStep(uint64_t clock);
  // Starts to ask for the rows of a micro-batch's keys.
  void AskFor(absl::Span<const SparseRows> tables);
  // Fills SparseRows::rows. Errors are the router's. REQUIRES: AskFor was called with the same keys
  // before.
  absl::Status LookUp(absl::Span<SparseRows> tables);

  // Takes a micro-batch's gradients, whose keys are distinct, and leaves unspecified ones. After
  // the last one sends the step's, which has had `examples` examples.
  void Push(absl::Span<SparseRows> tables, SeriesPosition position, uint64_t examples);
  // The same, except that nothing is sent before PushHeld.
  void Hold(absl::Span<const SparseRows> tables);
  // Sends what Hold has taken since BeginStep.
  void PushHeld(uint64_t examples);
  // Returns how many messages of this step have gone to a partition, by table.
  absl::Span<const uint32_t> chunks(uint32_t partition) const { return chunks_[partition]; }

  // Returns the least clock of the slowest slot in the answers since BeginStep; the largest number
  // if there are none.
  uint64_t slowest() const { return slowest_; }

 private:
  struct Pull {
    RowGroup group;
    ShardRouter::Handle operation;
  };

  int64_t RowsPerMessage(size_t table) const;
  void PushTable(size_t table, absl::Span<const uint64_t> keys, std::vector<float>& gradients,
                 uint64_t examples);

  const Parts parts_;
  const Options options_;

  uint64_t clock_ = 0;
  uint64_t slowest_ = 0;
  // The look-up under way, by table.
  std::vector<std::vector<Pull>> pulls_;
  // The gradients of micro-batches before the last, by table.
  std::vector<RowSum> sums_;
  // By table.
  std::vector<RowCoding> coding_;
  // The pushes under way: their gradients, and what is made of these.
  RowArrays arrays_;
  const std::shared_ptr<BufferPool> memory_;
  // The messages of this step, by [partition][table].
  std::vector<std::vector<uint32_t>> chunks_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_SERVED_ROWS_H_
