#ifndef MUSTER_SERVER_COORDINATOR_JOB_PROGRESS_TRACKER_H_
#define MUSTER_SERVER_COORDINATOR_JOB_PROGRESS_TRACKER_H_

#include <cstdint>
#include <deque>

#include "absl/time/time.h"
#include "proto/job_record.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

// A job's progress out of its slots' reports. Sums run since the job began; rates are over the last
// ten seconds of the coordinator's monotonic clock. Not thread-safe.
class ProgressTracker {
 public:
  // When a step of the job is done.
  enum class StepIsDone {
    // Once every slot has closed it.
    kByEverySlot,
    // Once one has: by all-reduce nobody closes a step without the sums of all who train, and
    // slots that are left out of a smaller round stay behind.
    kTogether,
  };

  // Continues from what was stored.
  ProgressTracker(uint32_t slots, StepIsDone done, const v1::ProgressRecord& stored);

  void Add(const v1::ReportProgressRequest& report, absl::Duration now);

  // The whole job starts again at this clock. What was spent stays spent: bytes, seconds and
  // examples keep counting.
  void RollBack(uint64_t clock);

  // Clocks that a slot has closed, as far as reported.
  uint64_t clock(uint32_t slot) const { return record_.clocks(slot); }
  // Steps that are done.
  uint64_t step() const;

  // Of the slowest slot.
  double training_seconds() const;

  v1::JobProgress Progress(uint64_t total_steps) const;
  // Fills in a slot's step and sums.
  void Describe(uint32_t slot, v1::TaskStatus& task) const;

  // To be stored.
  const v1::ProgressRecord& record() const { return record_; }

 private:
  struct Sample {
    absl::Duration at;
    uint64_t examples = 0;
    uint64_t step = 0;
  };

  const StepIsDone done_;
  v1::ProgressRecord record_;
  std::deque<Sample> samples_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_PROGRESS_TRACKER_H_
