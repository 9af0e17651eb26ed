#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_COORDINATOR_OPTIONS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_COORDINATOR_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/metrics/metric_families.h"
#include "server/coordinator/job/job_alert.h"

namespace muster {

struct CoordinatorOptions {
  // Time that a daemon may be silent. Short leases notice deaths soon, long ones forgive pauses.
  absl::Duration lease = absl::Seconds(5);
  // Time that a job with min_workers waits for a worker for a lost slot before it goes on without.
  absl::Duration elastic_wait = absl::Seconds(4);
  // Time that tasks wait for a live one that does not move, before another takes its slot.
  absl::Duration stall_timeout = absl::Minutes(10);
  // Time for which a worker must be slow before a job with replace_slow leaves it (SlowWorkers).
  absl::Duration slow_after = absl::Seconds(30);
  // Address at which tasks reach the coordinator, host:port.
  std::string advertised_address;
  // Number of ended jobs without a checkpoint (evaluations, runs that failed early) that are kept,
  // the last to end. Records, logs and events of the others are removed.
  size_t ended_without_checkpoint_kept = 100;
  // Number of ended jobs with checkpoints that are kept, likewise; the others are deleted with
  // their checkpoints. Absent: all are kept.
  std::optional<size_t> ended_with_checkpoints_kept;
  // Receives lines about retired jobs, expired drops and damaged histories, on the logic thread;
  // may be empty.
  std::function<void(absl::string_view)> log;
  // Receives what users may want to hear of at once, on the logic thread; may be empty. Does not
  // block.
  std::function<void(JobAlert)> alert;
  // Most jobs that may wait or run at once; more are refused.
  size_t max_unfinished_jobs = 1000;
  // The token that jobs that run programs are submitted with; empty: none is taken.
  std::string program_token;
  // Bytes of log text kept per job.
  uint64_t max_log_bytes = 4 << 20;
  // Random number of this process, which becomes part of the ids of the jobs that it takes.
  uint32_t identity = 0;
  // Parts of the process whose metrics are shown with the coordinator's. Called on the logic
  // thread.
  std::vector<MetricSource> metric_sources;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_COORDINATOR_OPTIONS_H_
