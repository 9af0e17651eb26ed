#ifndef MUSTER_WORKER_DATA_SAMPLING_SAMPLER_H_
#define MUSTER_WORKER_DATA_SAMPLING_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/step/shares.h"
#include "common/step/step_batches.h"
#include "common/step/step_shares.h"
#include "worker/data/sampling/mixture.h"

namespace muster {

struct SamplerOptions {
  uint64_t seed = 0;
  // Data ranks that share each batch; at least 1. Fewer than `job_data_ranks` if a job goes on
  // without some, more if it has taken more workers.
  int64_t data_ranks = 1;
  // The examples of each step, over all data ranks. From `first_clock` on these are at least
  // `job_data_ranks`, at most `training_examples`.
  StepBatches batches = StepBatches(1);
  // The training data are the examples [0, training_examples).
  int64_t training_examples = 0;
  // Data ranks of the whole job; 0 means `data_ranks`.
  int64_t job_data_ranks = 0;
  // Micro-batches per share when all data ranks are there; at least 1, at most the examples of the
  // smallest share.
  int64_t micro_batches = 1;
  // Clocks before it are none of this sampler's.
  int64_t first_clock = 0;
  // Parts of each batch that data ranks take.
  StepShares shares;
  // Null: the training examples are one source, in which `seed` draws the epochs' orders.
  std::shared_ptr<const Mixture> mixture = nullptr;
};

// Tells which examples each data rank trains on at each clock. A pure function of the options, the
// clock and the data rank, so the position in the data follows from the clock and needs no saving.
//
// The batch of a clock covers positions (step_batches.h) of an endless stream that passes over the
// n training examples epoch after epoch, each in an order of its own (permutation.h): position p is
// example permutation_{seed, p / n}(p mod n). Of several sources it is the example that their
// mixture has at position p (mixture.h). Data ranks divide the batch into micro-batches as
// shares.h says, each rank a contiguous share; the joined batch is therefore the same for any
// number of them. With n = 5, batches of 4 and two data ranks, clock 1 covers positions 4..7: data
// rank 0 takes the last example of epoch 0 and the first of epoch 1, data rank 1 the second and
// third of epoch 1.
//
// Immutable, so thread-safe.
class Sampler {
 public:
  // InvalidArgument names the field, its value and what would be right.
  static absl::StatusOr<std::unique_ptr<const Sampler>> Create(const SamplerOptions& options);

  // Returns the number of micro-batches of a clock's step, the same on every data rank.
  int64_t MicroBatches(int64_t clock) const { return DivisionAt(clock).MicroBatches(); }

  // Replaces `examples` by the indices that the data rank trains on in that micro-batch of the
  // clock, in order; the last micro-batches may have none. REQUIRES: clock >= first_clock,
  // data_rank in [0, data_ranks), micro_batch in [0, MicroBatches(clock)).
  void MicroBatchExamples(int64_t clock, int64_t data_rank, int64_t micro_batch,
                          std::vector<int64_t>& examples) const;

  // Returns the place of a micro-batch's first example in the clock's batch of all data ranks.
  int64_t MicroBatchBegin(int64_t clock, int64_t data_rank, int64_t micro_batch) const {
    return DivisionAt(clock).MicroBatch(data_rank, micro_batch).begin;
  }

  // Returns the number of examples of a clock's step that the data rank computes.
  int64_t ShareSize(int64_t clock, int64_t data_rank) const {
    return DivisionAt(clock).ShareOfRank(data_rank).size();
  }

  const SamplerOptions& options() const { return options_; }

 private:
  explicit Sampler(const SamplerOptions& options) : options_(options) {}

  BatchDivision DivisionAt(int64_t clock) const;

  const SamplerOptions options_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_SAMPLER_H_
