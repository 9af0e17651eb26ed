#include "worker/data/sampling/prefetcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {

Prefetcher::Prefetcher(const Dataset& dataset, const Sampler& sampler,
                       const PrefetcherOptions& options)
    : dataset_(dataset),
      sampler_(sampler),
      options_(options),
      expected_({.clock = options.start_clock}),
      next_(expected_),
      thread_([this] { ReadAhead(); }) {}

Prefetcher::~Prefetcher() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status Prefetcher::Next(int64_t clock, int64_t micro_batch, Batch& batch) {
  if (clock < 0 || clock >= options_.end_clock) {
    return absl::InvalidArgumentError(absl::StrCat("Batch of clock ", clock, " asked of data rank ",
                                                   options_.data_rank, "; clocks run from 0 to ",
                                                   options_.end_clock - 1));
  }
  const int64_t micro_batches = sampler_.MicroBatches(clock);
  if (micro_batch < 0 || micro_batch >= micro_batches) {
    return absl::InvalidArgumentError(absl::StrCat("Micro-batch ", micro_batch,
                                                   " asked of data rank ", options_.data_rank,
                                                   "; they run from 0 to ", micro_batches - 1));
  }
  const Place place = {.clock = clock, .micro_batch = micro_batch};
  absl::MutexLock lock(&mutex_);
  if (place != expected_) SeekLocked(place);
  mutex_.Await(absl::Condition(this, &Prefetcher::FrontReadyLocked));
  Entry entry = std::move(ready_.front());
  ready_.pop_front();
  if (!entry.status.ok()) {
    free_.push_back(std::move(entry.batch));
    SeekLocked(place);
    return entry.status;
  }
  expected_ = After(expected_);
  std::swap(batch, entry.batch);
  free_.push_back(std::move(entry.batch));
  return absl::OkStatus();
}

bool Prefetcher::CanReadLocked() const {
  return stopping_ || (static_cast<int>(ready_.size()) < std::max(1, options_.depth) &&
                       next_.clock < options_.end_clock);
}

bool Prefetcher::FrontReadyLocked() const { return !ready_.empty(); }

Prefetcher::Place Prefetcher::After(const Place& place) const {
  if (place.micro_batch + 1 < sampler_.MicroBatches(place.clock)) {
    return {.clock = place.clock, .micro_batch = place.micro_batch + 1};
  }
  return {.clock = place.clock + 1};
}

void Prefetcher::SeekLocked(const Place& place) {
  ++seeks_;
  expected_ = place;
  next_ = place;
  for (Entry& entry : ready_) free_.push_back(std::move(entry.batch));
  ready_.clear();
}

void Prefetcher::ReadAhead() {
  std::vector<int64_t> examples;
  while (true) {
    Entry entry;
    Place place;
    int64_t seeks = 0;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Prefetcher::CanReadLocked));
      if (stopping_) return;
      place = next_;
      next_ = After(place);
      seeks = seeks_;
      if (!free_.empty()) {
        entry.batch = std::move(free_.back());
        free_.pop_back();
      }
    }
    sampler_.MicroBatchExamples(place.clock, options_.data_rank, place.micro_batch, examples);
    if (absl::Status status = dataset_.Read(examples, entry.batch); !status.ok()) {
      entry.status = absl::Status(
          status.code(), absl::StrCat("Reading the batch of data rank ", options_.data_rank,
                                      " at clock ", place.clock, ": ", status.message()));
    }
    absl::MutexLock lock(&mutex_);
    if (seeks == seeks_) {
      ready_.push_back(std::move(entry));
    } else {
      free_.push_back(std::move(entry.batch));
    }
  }
}

}  // namespace muster
