#ifndef MUSTER_SERVER_COORDINATOR_JOB_PROGRESS_TRACKER_H_
#define MUSTER_SERVER_COORDINATOR_JOB_PROGRESS_TRACKER_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "proto/job_record.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/history/expert_load_window.h"
#include "server/coordinator/history/expert_sums.h"
#include "server/coordinator/history/slot_times.h"

namespace muster {

// A job's progress, computed from its slots' reports. Sums run since the job began; rates and times
// cover about the last ten seconds of the coordinator's monotonic clock. Not thread-safe.
class ProgressTracker {
 public:
  // Condition under which a step of the job is done.
  enum class StepIsDone {
    // Every slot has closed the step.
    kByEverySlot,
    // One slot has closed the step: by all-reduce no slot closes a step without the sums of all
    // that train, and slots left out of a smaller round stay behind; so do backup workers.
    kTogether,
  };

  // What divides the loss of a report without loss_weight.
  enum class LossWeight {
    // Its examples.
    kExamples,
    // Nothing: the report has no loss, and the loss before stays.
    kTold,
  };

  // Continues from what was stored.
  ProgressTracker(uint32_t slots, StepIsDone done, LossWeight weight,
                  const v1::ProgressRecord& stored);

  // Takes a report. Returns false, and changes nothing, if it is numbered and was taken before,
  // also by an earlier process whose progress was stored.
  bool Add(const v1::ReportProgressRequest& report, absl::Duration now);

  // Restarts the whole job's clocks at `clock`. Sums of bytes, seconds and examples stay; what
  // describes the last steps begins anew.
  void RollBack(uint64_t clock);

  // Returns the number of clocks that a slot has reported closed.
  uint64_t clock(uint32_t slot) const { return record_.clocks(slot); }
  // Returns the number of clocks that the furthest slot has reported closed.
  uint64_t furthest() const;
  // Returns the number of steps that are done.
  uint64_t step() const;

  // Returns the training time of the slowest slot.
  double training_seconds() const;

  v1::JobProgress Progress(uint64_t total_steps) const;
  // Sums over all slots since this tracker was made, for counters of the coordinator's process.
  struct Totals {
    // Steps of the slot that made the most.
    uint64_t steps = 0;
    uint64_t examples = 0;
    uint64_t dropped_examples = 0;
    uint64_t tokens = 0;
    // See ReportProgressRequest.
    double training_seconds = 0;
    double compute_seconds = 0;
    double communication_seconds = 0;
    double data_seconds = 0;
  };
  const Totals& totals() const { return totals_; }

  // Fills in a slot's step and sums.
  void Describe(uint32_t slot, v1::TaskStatus& task) const;
  // Returns the times of the slots' last steps, as reported since this process started.
  const std::vector<SlotTimes>& times() const { return times_; }
  // Returns how many tokens each expert got in the last steps, as all slots reported since this
  // process started; empty without experts.
  ExpertSums expert_loads() const { return expert_loads_.sums(); }

  // The state to store.
  const v1::ProgressRecord& record() const { return record_; }

 private:
  struct Sample {
    absl::Duration at;
    uint64_t examples = 0;
    uint64_t step = 0;
  };

  const StepIsDone done_;
  const LossWeight weight_;
  v1::ProgressRecord record_;
  std::deque<Sample> samples_;
  std::vector<SlotTimes> times_;
  ExpertLoadWindow expert_loads_;
  Totals totals_;
  // Number of steps since this tracker was made, by slot.
  std::vector<uint64_t> slot_steps_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_PROGRESS_TRACKER_H_
