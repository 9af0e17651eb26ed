#ifndef MUSTER_WORKER_RUNTIME_TRAINING_MICRO_BATCH_SOURCE_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_MICRO_BATCH_SOURCE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/data/batch.h"

namespace muster {

// Where a step's micro-batches come from. Used by one thread, in order of clocks and micro-batches.
class MicroBatchSource {
 public:
  virtual ~MicroBatchSource() = default;

  // Of a step.
  virtual int count() const = 0;

  // Place of a micro-batch's first example in the step's joined batch, whoever computes it.
  virtual uint64_t first_example(int micro_batch) const = 0;

  // Exchanges `batch` for a micro-batch.
  virtual absl::Status Read(uint64_t clock, int micro_batch, Batch& batch) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_MICRO_BATCH_SOURCE_H_
