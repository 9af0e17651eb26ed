#ifndef MUSTER_SERVER_COORDINATOR_PROGRESS_TRACKER_H_
#define MUSTER_SERVER_COORDINATOR_PROGRESS_TRACKER_H_

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
  // Continues from what was stored.
  ProgressTracker(uint32_t slots, const v1::ProgressRecord& stored);

  void Add(const v1::ReportProgressRequest& report, absl::Duration now);

  // The whole job starts again at this clock. What was spent stays spent: bytes, seconds and
  // examples keep counting.
  void RollBack(uint64_t clock);

  // Clocks that a slot has closed, as far as reported.
  uint64_t clock(uint32_t slot) const { return record_.clocks(slot); }
  // Clocks that every slot has closed.
  uint64_t step() const;

  v1::JobProgress Progress(uint64_t total_steps) const;

  // To be stored.
  const v1::ProgressRecord& record() const { return record_; }

 private:
  struct Sample {
    absl::Duration at;
    uint64_t examples = 0;
    uint64_t step = 0;
  };

  v1::ProgressRecord record_;
  std::deque<Sample> samples_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_PROGRESS_TRACKER_H_
