#ifndef MUSTER_WORKER_RUNTIME_MICRO_BATCH_READER_H_
#define MUSTER_WORKER_RUNTIME_MICRO_BATCH_READER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/data/prefetcher.h"
#include "worker/data/sampler.h"

namespace muster {

// A rank's micro-batches, clock after clock, read ahead. Used by one thread.
class MicroBatchReader {
 public:
  struct Range {
    uint64_t start_clock = 0;
    uint64_t end_clock = 0;
  };

  // What is lent outlives the reader.
  MicroBatchReader(const Dataset& dataset, const Sampler& sampler, int64_t rank, const Range& range,
                   const Clock& clock);

  // Of a step.
  int count() const { return count_; }

  // Place of a micro-batch's first example in the step's joined batch, whoever computes it.
  uint64_t first_example(int micro_batch) const;

  // Exchanges `batch` for a micro-batch; see Prefetcher::Next.
  absl::Status Read(uint64_t clock, int micro_batch, Batch& batch);

  // Time that Read took, since the reader was made.
  absl::Duration waited() const { return waited_; }

 private:
  const Sampler& sampler_;
  const int64_t rank_;
  const int count_;
  const Clock& clock_;
  Prefetcher prefetcher_;
  absl::Duration waited_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_MICRO_BATCH_READER_H_
