#ifndef MUSTER_WORKER_RUNTIME_TRAINING_MICRO_BATCH_READER_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_MICRO_BATCH_READER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/data/sampling/prefetcher.h"
#include "worker/data/sampling/sampler.h"
#include "worker/runtime/training/micro_batch_source.h"

namespace muster {

// A source of one data rank's micro-batches, which it reads ahead from a dataset.
class MicroBatchReader final : public MicroBatchSource {
 public:
  struct Range {
    uint64_t start_clock = 0;
    uint64_t end_clock = 0;
  };

  // `dataset`, `sampler` and `clock` outlive the reader.
  MicroBatchReader(const Dataset& dataset, const Sampler& sampler, int64_t data_rank,
                   const Range& range, const Clock& clock);

  int Count(uint64_t clock) const override;
  uint64_t FirstExample(uint64_t clock, int micro_batch) const override;
  // See Prefetcher::Next.
  absl::Status Read(uint64_t clock, int micro_batch, Batch& batch) override;

  // Returns the time spent in Read so far.
  absl::Duration waited() const { return waited_; }

 private:
  const Sampler& sampler_;
  const int64_t data_rank_;
  const Clock& clock_;
  Prefetcher prefetcher_;
  absl::Duration waited_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_MICRO_BATCH_READER_H_
