#ifndef MUSTER_WORKER_DATA_SAMPLING_EVALUATION_SHARE_H_
#define MUSTER_WORKER_DATA_SAMPLING_EVALUATION_SHARE_H_

#include <cstdint>
#include <vector>

#include "worker/data/sampling/split.h"

namespace muster {

struct EvaluationShareOptions {
  // REQUIRES: slot in [0, slots).
  int64_t slot = 0;
  int64_t slots = 1;
  // Upper bound on the examples that all slots evaluate together; 0 takes all that are held out.
  int64_t max_examples = 0;
};

// The held-out examples that one slot evaluates. The shares of all slots are disjoint, differ by at
// most one example and together are the same for any number of slots: all that are held out or,
// where a bound cuts them down, that many spread evenly over them. Immutable, so thread-safe.
class EvaluationShare {
 public:
  EvaluationShare(const Split& split, const EvaluationShareOptions& options);

  // Examples in this share. May be 0.
  int64_t size() const { return end_ - begin_; }

  // Replaces `examples` by the dataset indices of the share's positions [first, first + count),
  // ascending. REQUIRES: 0 <= first, 0 <= count, first + count <= size().
  void Examples(int64_t first, int64_t count, std::vector<int64_t>& examples) const;

 private:
  Split split_;
  // Examples that all slots evaluate together, and the part of them that is this slot's.
  int64_t evaluated_;
  int64_t begin_;
  int64_t end_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_EVALUATION_SHARE_H_
