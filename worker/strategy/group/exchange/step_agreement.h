#ifndef MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_STEP_AGREEMENT_H_
#define MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_STEP_AGREEMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/work.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/series_position.h"

namespace muster {

// The shares of all ranks in a step, combined.
struct StepTotal {
  uint64_t examples = 0;
  // The number of the first tensor whose gradient sum is not finite after scaling; -1: none.
  int overflowed = -1;
  // Squared norms of cells, in order of rank.
  absl::Span<const double> cells;
  // All ranks have written their files of the cut under way.
  bool all_have_written = false;
};

// Brings together what the ranks of a job know of a step: the exchange after which each of them
// makes the step. As every rank comes to it with complete sums only, none steps before the sums of
// all are complete, whatever groups they were made in. Calls: all-gather of two i64, the examples
// and the overflow with one bit for files; then, where norms are asked for, all-gather of the
// cells' norms, 8 bytes each.
//
// Where one group's sums tell every rank all else, the number of examples suffices. It is known
// before the last backward, and travels beside it: an all-reduce of one f64, whose fraction counts
// the ranks that have written their files (fewer than 2^16, beside fewer than 2^37 examples).
//
//   for each step: BeginStep; for each micro-batch: BeforeBackward; Run, once sums are complete
//
// Keeps its memory from step to step. Used by one thread.
class StepAgreement {
 public:
  enum class Extent { kAll, kExamples };

  struct Options {
    Extent extent = Extent::kAll;
    // One of the ranks that train on the same examples counts them.
    bool counts_examples = true;
    // The number of cells that each rank gives; empty, or all 0: no norms are needed.
    std::vector<size_t> cells_by_rank;
    // The timeout of each call, in which ranks may have to wait for slower ones.
    absl::Duration timeout = absl::Minutes(10);
  };

  // `world`, of all ranks and of host memory, outlives the agreement. Nobody else makes calls on it
  // while examples travel.
  StepAgreement(Communicator& world, Options options);
  // Ends a sum of examples that is under way in Abort, for the whole group.
  ~StepAgreement();

  // Begins a step. `has_written`: this rank has written its files of the cut under way.
  void BeginStep(bool has_written) {
    examples_ = 0;
    has_written_ = has_written;
  }
  // Counts a micro-batch's examples.
  void BeforeBackward(uint64_t examples, SeriesPosition position);

  // Exchanges the ranks' shares; a collective call of all ranks. `overflowed` is this rank's
  // StepTotal::overflowed, `cells` are the squared norms of its cells. The result is valid until
  // the next call. Errors are the communicator's.
  absl::StatusOr<StepTotal> Run(int overflowed = -1, absl::Span<const double> cells = {});

  // Returns the number of cells that this rank gives.
  size_t own_cells() const {
    return options_.cells_by_rank.empty() ? 0 : options_.cells_by_rank[world_.rank()];
  }
  // Returns the traffic of the calls that have ended.
  const CollectiveTraffic& traffic() const { return traffic_; }

 private:
  absl::Status GatherAll(int overflowed, absl::Span<const double> cells, StepTotal& total);

  Communicator& world_;
  const Options options_;
  uint64_t examples_ = 0;
  bool has_written_ = false;
  // The call that sums examples, its value, and the traffic before it. Null: none is under way.
  std::shared_ptr<Work> examples_sum_;
  double summed_examples_ = 0;
  CollectiveTraffic before_sum_;
  CollectiveTraffic traffic_;
  std::vector<int64_t> heads_;
  std::vector<double> cells_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_STEP_AGREEMENT_H_
