#ifndef MUSTER_WORKER_RUNTIME_DAEMON_WORKER_DAEMON_H_
#define MUSTER_WORKER_RUNTIME_DAEMON_WORKER_DAEMON_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/rpc/membership/cluster_client.h"
#include "common/rpc/membership/membership.h"
#include "common/rpc/retry.h"
#include "worker/runtime/daemon/log_shipper.h"
#include "worker/runtime/daemon/task_table.h"

namespace muster {

struct ProcessTaskOptions {
  // Address at which tasks, like their daemon, reach the coordinator.
  std::string coordinator_address;
  // Arguments that follow kTaskFlag.
  std::vector<std::string> arguments;
  // Programs of tasks that compute on a device, and of all other tasks. Empty means this binary.
  std::string device_program;
  std::string task_program;
  // Tasks may run programs: those of orders for the worker with this id whose proof is made with
  // this token (common/program/program_proof.h). Empty: the connection proves who orders.
  bool allow_programs = false;
  std::string worker_id;
  std::string program_token;
  // A task's process that shows no sign of life for so long is killed.
  absl::Duration silence = absl::InfiniteDuration();
};

// Returns a starter of tasks as child processes. `logs` gets their output, and outlives them.
TaskStarter ProcessTaskStarter(ProcessTaskOptions options, LogShipper& logs);

struct WorkerDaemonOptions {
  DaemonIdentity identity;
  // Writes one line to the daemon's own log.
  std::function<void(absl::string_view)> log;
  // Called when the coordinator will never accept this daemon, which must then end.
  std::function<void(const absl::Status&)> refused;
  // Called with its incarnation when the daemon becomes a member of the cluster, with 0 when it
  // loses its lease.
  std::function<void(uint64_t)> member;
};

// A member of the cluster that offers slots. Runs the tasks that the coordinator orders, and
// reports how they end. Tasks go on while the coordinator is away.
//
// A daemon whose machine is about to end is given notice. It tells the coordinator, which then has
// the tasks leave between two steps and withdraws their orders, so that others go on in their place
// with nothing lost. Thread-safe.
class WorkerDaemon {
 public:
  // Joins the cluster at once. `cluster`, `clock` and `waiter` outlive the daemon.
  WorkerDaemon(ClusterClient& cluster, TaskStarter start, WorkerDaemonOptions options,
               const Clock& clock, Waiter& waiter);
  // Calls Stop with a timeout of one second.
  ~WorkerDaemon();

  // Tells the coordinator that the daemon ends within `grace`. Calls `left` once, on any thread, as
  // soon as there is nothing to wait for: no task is left but those that run programs, which Stop
  // gives their own grace, or the coordinator does not answer. Then, or when the grace is over,
  // call Stop. To be called once.
  void GiveNotice(absl::Duration grace, std::function<void(absl::string_view why)> left)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Kills all tasks, those that run programs in their grace, and leaves the cluster, waiting at
  // most `timeout` for that. Idempotent.
  void Stop(absl::Duration timeout);

 private:
  struct Notice {
    // Time at which the grace is over.
    absl::Duration ends;
    // Null once it was called.
    std::function<void(absl::string_view why)> left;
  };

  MembershipCallbacks Callbacks();
  // Adds the notice, if there was one, to a heartbeat.
  void ReportNotice(v1::HeartbeatRequest& heartbeat) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells, after a notice, that there is nothing to wait for.
  void Left(absl::string_view why) ABSL_LOCKS_EXCLUDED(mutex_);
  void TellIfTasksLeft();

  const WorkerDaemonOptions options_;
  const Clock& clock_;
  prometheus::Registry metrics_;
  prometheus::Gauge& running_;
  prometheus::Counter& started_;
  prometheus::Counter& ended_;
  mutable absl::Mutex mutex_;
  std::optional<Notice> notice_ ABSL_GUARDED_BY(mutex_);
  TaskTable tasks_;
  MembershipLoop membership_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DAEMON_WORKER_DAEMON_H_
