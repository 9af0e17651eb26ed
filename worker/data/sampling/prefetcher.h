#ifndef MUSTER_WORKER_DATA_SAMPLING_PREFETCHER_H_
#define MUSTER_WORKER_DATA_SAMPLING_PREFETCHER_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/data/sampling/sampler.h"

namespace muster {

struct PrefetcherOptions {
  int64_t data_rank = 0;
  // Clocks [start_clock, end_clock) are read ahead.
  int64_t start_clock = 0;
  int64_t end_clock = std::numeric_limits<int64_t>::max();
  // Micro-batches held ready, beside the one being read and the caller's; at least 1.
  int depth = 2;
};

// Reads a data rank's micro-batches of consecutive clocks ahead of their use, on its own thread. A
// batch that the caller hands back through Next is filled again, so a steady run allocates nothing.
// Thread-safe, but meant for one caller. The destructor waits for the read in progress.
class Prefetcher {
 public:
  // `dataset` and `sampler` outlive this object.
  Prefetcher(const Dataset& dataset, const Sampler& sampler, const PrefetcherOptions& options);
  ~Prefetcher();

  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Exchanges `batch` for that micro-batch of `clock`; blocks until it is read. If it does not
  // follow the last one, the prefetcher drops what it holds and goes on from there. Errors are
  // those of Dataset::Read, with data rank and clock named; asking again reads again.
  // InvalidArgument: `clock` lies outside [0, end_clock), or `micro_batch` outside [0,
  // Sampler::MicroBatches(clock)).
  absl::Status Next(int64_t clock, int64_t micro_batch, Batch& batch);

 private:
  struct Place {
    int64_t clock = 0;
    int64_t micro_batch = 0;

    friend bool operator==(const Place&, const Place&) = default;
  };

  struct Entry {
    absl::Status status;
    Batch batch;
  };

  void ReadAhead();
  bool CanReadLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FrontReadyLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SeekLocked(const Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the place of the micro-batch that follows.
  Place After(const Place& place) const;

  const Dataset& dataset_;
  const Sampler& sampler_;
  const PrefetcherOptions options_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Number of seeks; a read that began before the last one is dropped.
  int64_t seeks_ ABSL_GUARDED_BY(mutex_) = 0;
  // The place that Next hands out without a seek: the front of `ready_` or, if `ready_` is
  // empty, the read in progress or to come.
  Place expected_ ABSL_GUARDED_BY(mutex_);
  // The place that the thread reads next.
  Place next_ ABSL_GUARDED_BY(mutex_);
  // Ready micro-batches, which follow one another.
  std::deque<Entry> ready_ ABSL_GUARDED_BY(mutex_);
  std::vector<Batch> free_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_PREFETCHER_H_
