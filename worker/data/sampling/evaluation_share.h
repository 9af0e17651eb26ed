#ifndef MUSTER_WORKER_DATA_SAMPLING_EVALUATION_SHARE_H_
#define MUSTER_WORKER_DATA_SAMPLING_EVALUATION_SHARE_H_

#include <cstdint>
#include <vector>

#include "worker/data/sampling/split.h"

namespace muster {

struct EvaluationShareOptions {
  // REQUIRES: data_rank in [0, data_ranks).
  int64_t data_rank = 0;
  int64_t data_ranks = 1;
  // Most examples that all data ranks evaluate together; 0 means all held-out examples.
  int64_t max_examples = 0;
};

// The held-out examples that one data rank evaluates. The shares of all data ranks are disjoint and
// differ in size by at most one. Together they are the same for any number of data ranks: all
// held-out examples or, with a bound, so many spread evenly over them. Immutable, so thread-safe.
class EvaluationShare {
 public:
  EvaluationShare(const Split& split, const EvaluationShareOptions& options);

  // Returns the number of examples in this share, which may be 0.
  int64_t size() const { return end_ - begin_; }

  // Replaces `examples` by the ascending dataset indices of the share's positions [first, first +
  // count). REQUIRES: 0 <= first, 0 <= count, first + count <= size().
  void Examples(int64_t first, int64_t count, std::vector<int64_t>& examples) const;

 private:
  Split split_;
  // Number of examples that all data ranks evaluate together, and this one's interval of them.
  int64_t evaluated_;
  int64_t begin_;
  int64_t end_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_EVALUATION_SHARE_H_
