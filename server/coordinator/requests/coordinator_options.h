#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_COORDINATOR_OPTIONS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_COORDINATOR_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

struct CoordinatorOptions {
  // How long a daemon may be silent. Short ones notice deaths soon, long ones forgive pauses.
  absl::Duration lease = absl::Seconds(5);
  // How long a job with min_workers waits for a worker for a lost slot before it goes on without
  // it.
  absl::Duration elastic_wait = absl::Seconds(10);
  // How long tasks wait for another that lives but does not move, before it is ended and its slot
  // is filled again.
  absl::Duration stall_timeout = absl::Minutes(10);
  // Where tasks reach the coordinator, host:port.
  std::string advertised_address;
  // Ended jobs kept that have no checkpoint (evaluations, runs that failed early), those that ended
  // last; records, logs and events of the others are forgotten.
  size_t ended_without_checkpoint_kept = 100;
  // The same of ended jobs that have some, which are deleted with them. Absent: all are kept.
  std::optional<size_t> ended_with_checkpoints_kept;
  // Told of each job that is retired and of orders that end by themselves; may be empty. Called on
  // the logic thread.
  std::function<void(absl::string_view)> log;
  // Jobs that may wait or run at once; more are refused.
  size_t max_unfinished_jobs = 1000;
  // Of log text kept per job.
  uint64_t max_log_bytes = 4 << 20;
  // Daemons that are gone are shown for this long.
  absl::Duration forget_daemons_after = absl::Hours(1);
  // Orders to drop tables end for servers that are gone for so long.
  absl::Duration forget_drops_after = absl::Hours(24);
  // Random, for a new store: part of its jobs' ids.
  uint32_t identity = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_COORDINATOR_OPTIONS_H_
