#ifndef MUSTER_WORKER_DATA_SAMPLING_DATA_POSITION_H_
#define MUSTER_WORKER_DATA_SAMPLING_DATA_POSITION_H_

#include <cstdint>
#include <vector>

namespace muster {

// The position in the endless stream of training examples (sampler.h) at which a job begins: before
// `clock`, `examples` have been taken. Both are 0 for a new job. A job that goes on from another
// job's checkpoint begins at that job's position, whatever the batch sizes of the two.
struct DataPosition {
  int64_t clock = 0;
  int64_t examples = 0;
  // Positions before this one, in order, at which jobs began that this one goes on from. Between
  // two of them, and after the beginning of all, batches were equally large.
  std::vector<DataPosition> earlier = {};
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_DATA_POSITION_H_
