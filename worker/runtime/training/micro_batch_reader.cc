#include "worker/runtime/training/micro_batch_reader.h"

namespace muster {
namespace {

PrefetcherOptions Prefetching(int64_t data_rank, const MicroBatchReader::Range& range) {
  PrefetcherOptions options;
  options.data_rank = data_rank;
  options.start_clock = static_cast<int64_t>(range.start_clock);
  options.end_clock = static_cast<int64_t>(range.end_clock);
  return options;
}

}  // namespace

MicroBatchReader::MicroBatchReader(const Dataset& dataset, const Sampler& sampler,
                                   int64_t data_rank, const Range& range, const Clock& clock)
    : sampler_(sampler),
      data_rank_(data_rank),
      clock_(clock),
      prefetcher_(dataset, sampler, Prefetching(data_rank, range)) {}

int MicroBatchReader::Count(uint64_t clock) const {
  return static_cast<int>(sampler_.MicroBatches(static_cast<int64_t>(clock)));
}

uint64_t MicroBatchReader::FirstExample(uint64_t clock, int micro_batch) const {
  return sampler_.MicroBatchBegin(static_cast<int64_t>(clock), data_rank_, micro_batch);
}

absl::Status MicroBatchReader::Read(uint64_t clock, int micro_batch, Batch& batch) {
  const absl::Duration started = clock_.Monotonic();
  const absl::Status status = prefetcher_.Next(static_cast<int64_t>(clock), micro_batch, batch);
  waited_ += clock_.Monotonic() - started;
  return status;
}

}  // namespace muster
