#include "tests/benchmarks/coordinator/fleet.h"

#include <chrono>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr int64_t kStepNanoseconds = 25'000'000;

}  // namespace

int64_t SharedNanoseconds() {
  // CLOCK_MONOTONIC.
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int Fleet::AddDaemon() {
  absl::MutexLock lock(&mutex_);
  for (Happened& happened : happened_) happened.had.push_back(false);
  return daemons_++;
}

void Fleet::Note(FleetEvent event, int daemon) {
  const int64_t now = SharedNanoseconds();
  absl::MutexLock lock(&mutex_);
  Happened& happened = happened_[static_cast<int>(event)];
  if (happened.had[daemon]) return;
  happened.had[daemon] = true;
  happened.times.push_back(now);
}

void Fleet::Mark() {
  absl::MutexLock lock(&mutex_);
  for (Happened& happened : happened_) {
    happened.had.assign(happened.had.size(), false);
    happened.times.clear();
  }
}

absl::StatusOr<int64_t> Fleet::Await(FleetEvent event, size_t count, absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const Happened& happened = happened_[static_cast<int>(event)];
  const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return happened.times.size() >= count;
  };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&enough), timeout)) {
    return absl::DeadlineExceededError(
        absl::StrCat(happened.times.size(), " of ", count, " daemons came to event ",
                     static_cast<int>(event), " in ", absl::FormatDuration(timeout),
                     last_error_.empty() ? "" : "; the last error: ", last_error_));
  }
  return count == 0 ? SharedNanoseconds() : happened.times[count - 1];
}

void Fleet::NoteError(absl::string_view call, const absl::Status& status) {
  ++errors;
  absl::MutexLock lock(&mutex_);
  last_error_ = absl::StrCat(call, ": ", status.ToString());
}

uint64_t Fleet::StepNow() const {
  return 1 + (SharedNanoseconds() - options_.first_step) / kStepNanoseconds;
}

}  // namespace muster
