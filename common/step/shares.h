#ifndef MUSTER_COMMON_STEP_SHARES_H_
#define MUSTER_COMMON_STEP_SHARES_H_

#include <cstdint>

#include "absl/types/span.h"

namespace muster {

// The rule by which data ranks divide the examples of a step, and of an evaluation; pure functions.
//
// Shares are contiguous and differ by at most one example, unless a step's parts say otherwise. A
// pass through a model may make collective calls, which all ranks have to make. So all data ranks
// make the same number of passes: as many as the largest share needs. A rank whose own share needs
// fewer runs the last ones over no examples. No pass is one of no examples on every rank.

// Positions [begin, end) of what is divided.
struct Share {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// Returns the share of a data rank: rank d of D has [d n / D, (d + 1) n / D) of n examples.
// REQUIRES: data_rank in [0, data_ranks).
Share ShareOf(int64_t examples, int64_t data_rank, int64_t data_ranks);
// Returns the share of a data rank that takes parts[data_rank] of all parts: one example and its
// part of those that are left when each has one. Equal parts give the shares above. REQUIRES:
// examples >= parts.size(), data_rank in [0, parts.size()); parts are at least 1.
Share ShareOf(int64_t examples, int64_t data_rank, absl::Span<const uint32_t> parts);

// The division of a step's batch into micro-batches. A share of n examples that needs k of them is
// divided evenly: the j-th is [j n / k, (j + 1) n / k) of the share. With all data ranks of the job
// there, k is `micro_batches` on every rank, and the largest micro-batch has
// m = ceil(ceil(batch_size / job_data_ranks) / micro_batches) examples. With fewer data ranks the
// shares grow, but m, and so a step's memory, does not: k = max(micro_batches, ceil(n / m)), and so
// it is for a rank with more parts than others. With more data ranks the shares shrink, and k is
// `micro_batches`. REQUIRES: 1 <= micro_batches <=
// batch_size / max(data_ranks, job_data_ranks).
struct BatchDivision {
  int64_t batch_size = 0;
  int64_t data_ranks = 1;
  // Data ranks of the whole job.
  int64_t job_data_ranks = 1;
  int64_t micro_batches = 1;
  // Parts of the batch that each data rank takes; empty: equal ones.
  absl::Span<const uint32_t> parts;

  // Returns the positions in the batch of a data rank's share.
  Share ShareOfRank(int64_t data_rank) const;
  // Returns the number of micro-batches of a step, the same on every data rank.
  int64_t MicroBatches() const;
  // Returns the positions in the batch of a data rank's micro-batch. REQUIRES: micro_batch in [0,
  // MicroBatches()).
  Share MicroBatch(int64_t data_rank, int64_t micro_batch) const;

 private:
  // Returns the number of micro-batches that a share of so many examples needs.
  int64_t Needed(int64_t share) const;
};

// The division of an evaluation into batches. A share fills one batch after another.
struct EvaluationDivision {
  int64_t examples = 0;
  int64_t data_ranks = 1;
  // The most examples of a batch; at least 1.
  int64_t most = 1;

  // Returns the number of batches, the same on every data rank; 0 without examples.
  int64_t Batches() const;
  // Returns the positions of a data rank's batch. REQUIRES: batch in [0, Batches()).
  Share Batch(int64_t data_rank, int64_t batch) const;
};

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_SHARES_H_
