#ifndef MUSTER_WORKER_RUNTIME_DAEMON_WORKER_DAEMON_H_
#define MUSTER_WORKER_RUNTIME_DAEMON_WORKER_DAEMON_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/metrics/metric_registry.h"
#include "common/rpc/membership/cluster_client.h"
#include "common/rpc/membership/membership.h"
#include "common/rpc/retry.h"
#include "worker/runtime/daemon/log_shipper.h"
#include "worker/runtime/daemon/task_table.h"

namespace muster {

struct ProcessTaskOptions {
  // Under which tasks reach the coordinator, as their daemon does.
  std::string coordinator_address;
  // Come after the one that says what the process is.
  std::vector<std::string> arguments;
  // The program of tasks that compute on a device; empty: this binary, as for all others.
  std::string device_program;
};

// Starts tasks as child processes; their output goes to `logs`.
TaskStarter ProcessTaskStarter(ProcessTaskOptions options, LogShipper& logs);

struct WorkerDaemonOptions {
  DaemonIdentity identity;
  // One line for the daemon's own log.
  std::function<void(absl::string_view)> log;
  // The coordinator will never take this daemon: it has to end.
  std::function<void(const absl::Status&)> refused;
  // Called when it becomes a member of the cluster (true), and when its lease is lost (false).
  std::function<void(bool)> member;
};

// A member of the cluster that offers slots: runs what the coordinator orders, reports what became
// of it. Tasks go on while the coordinator is away, as only new orders end them. Thread-safe.
class WorkerDaemon {
 public:
  // Joins at once. All that is lent outlives the daemon.
  WorkerDaemon(ClusterClient& cluster, TaskStarter start, WorkerDaemonOptions options,
               const Clock& clock, Waiter& waiter);
  // Stops.
  ~WorkerDaemon();

  // Kills all tasks and leaves the cluster, within `timeout` as far as the coordinator answers.
  // Idempotent.
  void Stop(absl::Duration timeout);

 private:
  MembershipCallbacks Callbacks();

  const WorkerDaemonOptions options_;
  MetricRegistry metrics_;
  Gauge& running_;
  Counter& started_;
  Counter& ended_;
  TaskTable tasks_;
  MembershipLoop membership_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DAEMON_WORKER_DAEMON_H_
