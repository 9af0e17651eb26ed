#include "worker/data/sampling/prefetcher.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {

Prefetcher::Prefetcher(const Dataset& dataset, const Sampler& sampler,
                       const PrefetcherOptions& options)
    : dataset_(dataset),
      sampler_(sampler),
      options_(options),
      micro_batches_(sampler.MicroBatches()),
      end_position_(options.end_clock > std::numeric_limits<int64_t>::max() / micro_batches_
                        ? std::numeric_limits<int64_t>::max()
                        : options.end_clock * micro_batches_),
      expected_(options.start_clock * micro_batches_),
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
  if (micro_batch < 0 || micro_batch >= micro_batches_) {
    return absl::InvalidArgumentError(absl::StrCat("Micro-batch ", micro_batch,
                                                   " asked of data rank ", options_.data_rank,
                                                   "; they run from 0 to ", micro_batches_ - 1));
  }
  const int64_t position = clock * micro_batches_ + micro_batch;
  absl::MutexLock lock(&mutex_);
  if (position != expected_) SeekLocked(position);
  mutex_.Await(absl::Condition(this, &Prefetcher::FrontReadyLocked));
  Entry entry = std::move(ready_.front());
  ready_.pop_front();
  if (!entry.status.ok()) {
    free_.push_back(std::move(entry.batch));
    SeekLocked(position);
    return entry.status;
  }
  ++expected_;
  std::swap(batch, entry.batch);
  free_.push_back(std::move(entry.batch));
  return absl::OkStatus();
}

bool Prefetcher::CanReadLocked() const {
  return stopping_ ||
         (static_cast<int>(ready_.size()) < std::max(1, options_.depth) && next_ < end_position_);
}

bool Prefetcher::FrontReadyLocked() const { return !ready_.empty(); }

void Prefetcher::SeekLocked(int64_t position) {
  ++seeks_;
  expected_ = position;
  next_ = position;
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
      entry.position = next_++;
      seeks = seeks_;
      if (!free_.empty()) {
        entry.batch = std::move(free_.back());
        free_.pop_back();
      }
    }
    const int64_t clock = entry.position / micro_batches_;
    sampler_.MicroBatchExamples(clock, options_.data_rank, entry.position % micro_batches_,
                                examples);
    if (absl::Status status = dataset_.Read(examples, entry.batch); !status.ok()) {
      entry.status = absl::Status(
          status.code(), absl::StrCat("Reading the batch of data rank ", options_.data_rank,
                                      " at clock ", clock, ": ", status.message()));
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
