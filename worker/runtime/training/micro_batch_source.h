#ifndef MUSTER_WORKER_RUNTIME_TRAINING_MICRO_BATCH_SOURCE_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_MICRO_BATCH_SOURCE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/data/batch.h"

namespace muster {

// A source of each step's micro-batches. Used by one thread, in order of clocks and micro-batches.
class MicroBatchSource {
 public:
  virtual ~MicroBatchSource() = default;

  // Returns the number of micro-batches of a clock's step, the same on every rank.
  virtual int Count(uint64_t clock) const = 0;

  // Returns the place of a micro-batch's first example in the clock's batch of all data ranks. The
  // place does not depend on which of them computes the micro-batch.
  virtual uint64_t FirstExample(uint64_t clock, int micro_batch) const = 0;

  // Replaces `batch` by a micro-batch, which may have no examples, and may reuse the memory of
  // `batch`.
  virtual absl::Status Read(uint64_t clock, int micro_batch, Batch& batch) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_MICRO_BATCH_SOURCE_H_
