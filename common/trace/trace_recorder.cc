#include "common/trace/trace_recorder.h"

#include <limits>

namespace muster {

TraceRecorder::TraceRecorder(size_t most_events) : size_(most_events) {}

TraceRecorder::~TraceRecorder() = default;

void TraceRecorder::Record(const TraceEvent& event) {
  Place* const ring = ring_.load(std::memory_order_acquire);
  if (ring == nullptr || event.step < first_.load(std::memory_order_relaxed) ||
      event.step >= end_.load(std::memory_order_relaxed)) {
    return;
  }
  uint64_t number = added_.load(std::memory_order_relaxed);
  while (true) {
    Place& place = ring[number % size_];
    const uint64_t turn = place.turn.load(std::memory_order_acquire);
    if (turn < number) {  // Still holds the event of the round before.
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    if (turn > number) {  // Another thread has it.
      number = added_.load(std::memory_order_relaxed);
    } else if (added_.compare_exchange_weak(number, number + 1, std::memory_order_relaxed)) {
      place.event = event;
      place.turn.store(number + 1, std::memory_order_release);
      return;
    }
  }
}

void TraceRecorder::Take(size_t most, std::vector<TraceEvent>& events) {
  Place* const ring = ring_.load(std::memory_order_relaxed);
  if (ring == nullptr) return;
  for (size_t i = 0; i < most; ++i, ++taken_) {
    Place& place = ring[taken_ % size_];
    if (place.turn.load(std::memory_order_acquire) != taken_ + 1) return;
    events.push_back(place.event);
    place.turn.store(taken_ + size_, std::memory_order_release);
  }
}

void TraceRecorder::BeginStep(uint64_t step) {
  if (!armed_.load(std::memory_order_acquire)) return;
  step_.store(step, std::memory_order_relaxed);
  if (step >= end_.load(std::memory_order_relaxed)) {
    Stop();
    finished_.store(true, std::memory_order_release);
    return;
  }
  on_.store(step >= first_.load(std::memory_order_relaxed));
  // Stop may have come between.
  if (!armed_.load()) on_.store(false, std::memory_order_relaxed);
}

void TraceRecorder::EndStep() {
  if (!on() || !armed_.load(std::memory_order_acquire)) return;
  if (step() + 1 < end_.load(std::memory_order_relaxed)) return;
  Stop();
  finished_.store(true, std::memory_order_release);
}

void TraceRecorder::Prepare(absl::string_view job_id, Steps steps) {
  Stop();
  if (memory_ == nullptr) {
    memory_ = std::make_unique<Place[]>(size_);
    for (size_t i = 0; i < size_; ++i) memory_[i].turn.store(i, std::memory_order_relaxed);
    ring_.store(memory_.get(), std::memory_order_release);
  }
  std::vector<TraceEvent> forgotten;
  Take(size_, forgotten);
  finished_.store(false, std::memory_order_relaxed);
  dropped_.store(0, std::memory_order_relaxed);
  first_.store(steps.first, std::memory_order_relaxed);
  end_.store(steps.end, std::memory_order_relaxed);
  absl::MutexLock lock(&mutex_);
  job_id_ = std::string(job_id);
}

void TraceRecorder::Start(absl::string_view job_id, Steps steps) {
  Prepare(job_id, steps);
  armed_.store(true, std::memory_order_release);
}

void TraceRecorder::StartNow(absl::string_view job_id, Steps steps) {
  Prepare(job_id, steps);
  step_.store(std::numeric_limits<uint64_t>::max(), std::memory_order_relaxed);
  on_.store(true, std::memory_order_release);
}

void TraceRecorder::Stop() {
  armed_.store(false);
  on_.store(false);
}

bool TraceRecorder::Records(absl::string_view job_id) const {
  if (!on()) return false;
  absl::MutexLock lock(&mutex_);
  return job_id_ == job_id;
}

}  // namespace muster
