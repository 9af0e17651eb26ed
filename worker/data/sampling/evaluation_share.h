#ifndef MUSTER_WORKER_DATA_SAMPLING_EVALUATION_SHARE_H_
#define MUSTER_WORKER_DATA_SAMPLING_EVALUATION_SHARE_H_

#include <cstdint>
#include <vector>

#include "common/step/shares.h"
#include "worker/data/sampling/split.h"

namespace muster {

struct EvaluationShareOptions {
  // REQUIRES: data_rank in [0, data_ranks).
  int64_t data_rank = 0;
  int64_t data_ranks = 1;
  // Most examples that all data ranks evaluate together; 0 means all held-out examples.
  int64_t max_examples = 0;
};

// The held-out examples that one data rank evaluates, batch by batch (shares.h). Together the
// shares are the same for any number of data ranks: all held-out examples or, with a bound, so many
// spread evenly over them. Immutable, so thread-safe.
class EvaluationShare {
 public:
  EvaluationShare(const Split& split, const EvaluationShareOptions& options);

  // Returns the number of batches of at most `most` examples, the same on every data rank; 0 if
  // there is nothing to evaluate. REQUIRES: most >= 1.
  int64_t Batches(int64_t most) const { return DivisionBy(most).Batches(); }

  // Replaces `examples` by the ascending dataset indices of one such batch; the last batches may
  // have none. REQUIRES: batch in [0, Batches(most)).
  void BatchExamples(int64_t batch, int64_t most, std::vector<int64_t>& examples) const;

 private:
  EvaluationDivision DivisionBy(int64_t most) const {
    return {.examples = evaluated_, .data_ranks = data_ranks_, .most = most};
  }

  const Split split_;
  const int64_t data_rank_;
  const int64_t data_ranks_;
  // Number of examples that all data ranks evaluate together.
  const int64_t evaluated_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_EVALUATION_SHARE_H_
