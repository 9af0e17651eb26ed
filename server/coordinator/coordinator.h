#ifndef MUSTER_SERVER_COORDINATOR_COORDINATOR_H_
#define MUSTER_SERVER_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/calls/serial_executor.h"
#include "server/coordinator/checkpoints/checkpoint_archive.h"
#include "server/coordinator/checkpoints/checkpoint_lifecycle.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/lifecycle/member_changes.h"
#include "server/coordinator/lifecycle/round_formation.h"
#include "server/coordinator/lifecycle/stall_watch.h"
#include "server/coordinator/metrics/coordinator_metrics.h"
#include "server/coordinator/requests/checkpoint_requests.h"
#include "server/coordinator/requests/coordinator_options.h"
#include "server/coordinator/requests/daemon_requests.h"
#include "server/coordinator/requests/examination_requests.h"
#include "server/coordinator/requests/job_requests.h"
#include "server/coordinator/requests/metrics_requests.h"
#include "server/coordinator/requests/ship_requests.h"
#include "server/coordinator/requests/submit_requests.h"
#include "server/coordinator/requests/task_requests.h"
#include "server/coordinator/requests/trace_requests.h"
#include "server/coordinator/scheduling/departures.h"
#include "server/coordinator/scheduling/move_scheduler.h"
#include "server/coordinator/scheduling/scheduler.h"
#include "server/coordinator/scheduling/slow_workers.h"
#include "server/coordinator/store/job_store.h"

namespace muster {

// The coordinator without gRPC: jobs, daemons and tasks, and all that follows from their calls.
//
// Execution: everything runs on one logic thread, the executor `logic`; callers on other threads
// post there. Only writes to the store, which are short, block that thread. Work on checkpoints
// runs on the executor `disk`, and work that grows with a submitted specification on `planning`.
// Replies go to callbacks, which must not call back. Time is the injected clock's; Tick acts on it.
//
// Order and durability: a request changes the store first, then memory; then those concerned are
// answered. So a restarted coordinator knows all that anyone was told. Daemons that register
// between two calls of Settle are stored by one write. After a restart daemons keep their leases
// for one full term; tasks go on undisturbed and report again what is not stored.
class Coordinator {
 public:
  // Reads the store. All references outlive the coordinator. Run the executors empty before it is
  // destroyed: their work refers to it. Errors are the store's.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(
      JobStore& store, CheckpointArchive& archive, const Clock& clock, SerialExecutor& logic,
      SerialExecutor& disk, SerialExecutor& planning, CoordinatorOptions options);

  // Serve the calls of the four services. Call Settle after one or more of them.
  SubmitRequests& submits() { return submit_requests_; }
  JobRequests& jobs() { return job_requests_; }
  DaemonRequests& daemons() { return daemon_requests_; }
  TaskRequests& tasks() { return task_requests_; }
  MetricsRequests& metrics() { return metrics_requests_; }
  TraceRequests& traces() { return trace_requests_; }
  MoveScheduler& moves() { return moves_; }
  CheckpointRequests& checkpoints() { return checkpoint_requests_; }
  ShipRequests& shipped() { return ship_requests_; }
  ExaminationRequests& examinations() { return examination_requests_; }
  // Returns the daemons and the drains.
  v1::GetClusterReply Cluster();

  // Acts on what has changed: places jobs, answers parked calls. Errors are the store's; what
  // failed is tried again at the next Settle.
  absl::Status Settle();

  // Returns whether no record of a job or a daemon has changed since the last Settle.
  bool settled() const { return table_->version() == settled_version_; }

  // Acts on time (leases, stalls, deadlines, retention) and settles. Call some 20 times a second.
  absl::Status Tick();

  // Answers all parked calls with UNAVAILABLE; those that come later at the next Shutdown.
  void Shutdown();

  // State, for tests and the services.
  const JobTable& table() const { return *table_; }
  const Membership& members() const { return members_; }

 private:
  Coordinator(std::unique_ptr<JobTable> table, CheckpointArchive& archive, const Clock& clock,
              SerialExecutor& logic, SerialExecutor& disk, SerialExecutor& planning,
              CoordinatorOptions options);

  absl::Status SaveProgress();
  // Lets the histories show what reports have added since the last tick.
  absl::Status SettleHistories();

  const CoordinatorOptions options_;
  const Clock& clock_;
  // Time at which Tick last ran.
  absl::Duration last_tick_;
  // The table's version at the end of the last Settle.
  uint64_t settled_version_ = 0;
  const std::unique_ptr<JobTable> table_;
  Membership members_;
  CoordinatorMetrics metrics_;
  JobLifecycle lifecycle_;
  Departures departures_;
  SlowWorkers slow_workers_;
  Scheduler scheduler_;
  MemberChanges member_changes_;
  MoveScheduler moves_;
  CheckpointLifecycle checkpoints_;
  CheckpointRequests checkpoint_requests_;
  RoundFormation rounds_;
  StallWatch stalls_;
  TraceRequests trace_requests_;
  DaemonRequests daemon_requests_;
  TaskRequests task_requests_;
  ShipRequests ship_requests_;
  SubmitRequests submit_requests_;
  JobRequests job_requests_;
  MetricsRequests metrics_requests_;
  ExaminationRequests examination_requests_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_COORDINATOR_H_
