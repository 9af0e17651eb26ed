#include "server/coordinator/job/goodput.h"

#include <algorithm>

#include "server/coordinator/job/job_state_machine.h"

namespace muster {
namespace {

constexpr double kMsPerSecond = 1000;

// Returns the time from one time of day to another; 0 if somebody has set the clock back.
double SecondsBetween(int64_t from_unix_ms, int64_t to_unix_ms) {
  return static_cast<double>(std::max<int64_t>(0, to_unix_ms - from_unix_ms)) / kMsPerSecond;
}

// Returns the time since the job's state began, if it has started and does not run.
double StoppedSince(const v1::JobRecord& record, int64_t now_unix_ms) {
  const bool stopped =
      record.started_unix_ms() > 0 && record.state() != v1::RUNNING && !IsFinal(record.state());
  // Records of earlier releases do not know since when.
  if (!stopped || record.state_since_unix_ms() == 0) return 0;
  return SecondsBetween(record.state_since_unix_ms(), now_unix_ms);
}

}  // namespace

void AddStoppedTime(const v1::JobRecord& before, int64_t now_unix_ms, v1::JobRecord& after) {
  if (before.state() == after.state()) return;
  after.set_stopped_seconds(before.stopped_seconds() + StoppedSince(before, now_unix_ms));
  after.set_state_since_unix_ms(now_unix_ms);
}

v1::Goodput GoodputOf(const v1::JobRecord& record, const v1::ProgressRecord& progress,
                      int64_t now_unix_ms) {
  // The slot that made most steps: others may have been left out of smaller rounds.
  int slot = 0;
  const auto once = [&](int i) {
    return progress.training_seconds(i) - progress.slots(i).redone_seconds();
  };
  for (int i = 1; i < progress.slots_size(); ++i) {
    if (once(i) > once(slot)) slot = i;
  }
  v1::Goodput goodput;
  goodput.set_seconds(SecondsBetween(
      record.started_unix_ms(), IsFinal(record.state()) ? record.finished_unix_ms() : now_unix_ms));
  double left = goodput.seconds();
  const auto take = [&](double seconds) {
    const double taken = std::clamp(seconds, 0.0, left);
    left -= taken;
    return taken;
  };
  if (progress.slots_size() > 0) {
    const v1::SlotProgress& sums = progress.slots(slot);
    goodput.set_redone_steps(sums.redone_steps());
    goodput.set_evaluation_seconds(take(sums.evaluation_seconds()));
    goodput.set_checkpoint_seconds(take(sums.checkpoint_seconds()));
    goodput.set_redone_seconds(take(sums.redone_seconds()));
    const double stopped = record.stopped_seconds() + StoppedSince(record, now_unix_ms);
    goodput.set_productive_seconds(std::clamp(once(slot), 0.0, std::max(0.0, left - stopped)));
    left -= goodput.productive_seconds();
  }
  goodput.set_waiting_seconds(left);
  return goodput;
}

}  // namespace muster
