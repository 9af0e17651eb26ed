#include "worker/data/prefetcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {

Prefetcher::Prefetcher(const Dataset& dataset, const Sampler& sampler,
                       const PrefetcherOptions& options)
    : dataset_(dataset),
      sampler_(sampler),
      options_(options),
      expected_clock_(options.start_clock),
      next_clock_(options.start_clock),
      thread_([this] { ReadAhead(); }) {}

Prefetcher::~Prefetcher() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status Prefetcher::Next(int64_t clock, Batch& batch) {
  if (clock < 0 || clock >= options_.end_clock) {
    return absl::InvalidArgumentError(absl::StrCat("Batch of clock ", clock, " asked of slot ",
                                                   options_.slot, "; clocks run from 0 to ",
                                                   options_.end_clock - 1));
  }
  absl::MutexLock lock(&mutex_);
  if (clock != expected_clock_) SeekLocked(clock);
  mutex_.Await(absl::Condition(this, &Prefetcher::FrontReadyLocked));
  Entry entry = std::move(ready_.front());
  ready_.pop_front();
  if (!entry.status.ok()) {
    free_.push_back(std::move(entry.batch));
    SeekLocked(clock);
    return entry.status;
  }
  ++expected_clock_;
  std::swap(batch, entry.batch);
  free_.push_back(std::move(entry.batch));
  return absl::OkStatus();
}

bool Prefetcher::CanReadLocked() const {
  return stopping_ || (static_cast<int>(ready_.size()) < std::max(1, options_.depth) &&
                       next_clock_ < options_.end_clock);
}

bool Prefetcher::FrontReadyLocked() const { return !ready_.empty(); }

void Prefetcher::SeekLocked(int64_t clock) {
  ++seeks_;
  expected_clock_ = clock;
  next_clock_ = clock;
  for (Entry& entry : ready_) free_.push_back(std::move(entry.batch));
  ready_.clear();
}

void Prefetcher::ReadAhead() {
  std::vector<int64_t> examples;
  while (true) {
    Entry entry;
    int64_t seeks = 0;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Prefetcher::CanReadLocked));
      if (stopping_) return;
      entry.clock = next_clock_++;
      seeks = seeks_;
      if (!free_.empty()) {
        entry.batch = std::move(free_.back());
        free_.pop_back();
      }
    }
    sampler_.Examples(entry.clock, options_.slot, examples);
    if (absl::Status status = dataset_.Read(examples, entry.batch); !status.ok()) {
      entry.status = absl::Status(
          status.code(), absl::StrCat("Reading the batch of slot ", options_.slot, " at clock ",
                                      entry.clock, ": ", status.message()));
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
