#ifndef MUSTER_WORKER_DATA_SAMPLING_DATA_POSITION_H_
#define MUSTER_WORKER_DATA_SAMPLING_DATA_POSITION_H_

#include <cstdint>

namespace muster {

// Where a job begins to take batches of its size from the endless stream of training examples (see
// sampler.h): by `clock` the stream has given `examples`. Both are 0 for a job that starts afresh.
// One that goes on from another job's checkpoint begins where that one was, whatever the size of
// either's batches.
struct DataPosition {
  int64_t clock = 0;
  int64_t examples = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_DATA_POSITION_H_
