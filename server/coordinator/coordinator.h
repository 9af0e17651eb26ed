#ifndef MUSTER_SERVER_COORDINATOR_COORDINATOR_H_
#define MUSTER_SERVER_COORDINATOR_COORDINATOR_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "server/coordinator/calls/serial_executor.h"
#include "server/coordinator/checkpoints/checkpoint_archive.h"
#include "server/coordinator/checkpoints/checkpoint_lifecycle.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/lifecycle/round_formation.h"
#include "server/coordinator/lifecycle/stall_watch.h"
#include "server/coordinator/metrics/coordinator_metrics.h"
#include "server/coordinator/requests/checkpoint_requests.h"
#include "server/coordinator/requests/coordinator_options.h"
#include "server/coordinator/requests/daemon_requests.h"
#include "server/coordinator/requests/job_requests.h"
#include "server/coordinator/requests/task_requests.h"
#include "server/coordinator/scheduling/move_scheduler.h"
#include "server/coordinator/scheduling/scheduler.h"
#include "server/coordinator/store/job_store.h"

namespace muster {

// The coordinator without gRPC: jobs, daemons, tasks, and what follows from what they say.
//
// Execution: everything runs on one logic thread, the executor `logic`; callers on others post
// there. Nothing blocks on that thread but writes to the store, which are short; work on
// checkpoints runs on `disk`, and what grows with a submitted job's specification on `planning`.
// Replies are handed to callbacks, which must not call back. Time is the injected clock's, and
// moves on with Tick.
//
// Order and durability: a request changes the store first, then memory, then whoever it concerns is
// answered. So a restart finds all that anyone was told. After it, daemons keep their leases for
// one full term, tasks go on undisturbed and say again what is not stored.
class Coordinator {
 public:
  // Reads the store. All references outlive the coordinator, and so do the executors' queues: run
  // them empty before it goes. Errors are the store's.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(
      JobStore& store, CheckpointArchive& archive, const Clock& clock, SerialExecutor& logic,
      SerialExecutor& disk, SerialExecutor& planning, CoordinatorOptions options);

  // The three services' calls. After one or more of them call Settle.
  JobRequests& jobs() { return job_requests_; }
  DaemonRequests& daemons() { return daemon_requests_; }
  TaskRequests& tasks() { return task_requests_; }
  MoveScheduler& moves() { return moves_; }
  CheckpointRequests& checkpoints() { return checkpoint_requests_; }

  // Draws the consequences: places jobs, answers parked calls. Errors are the store's; what failed
  // is tried again at the next Settle.
  absl::Status Settle();

  // To be called some 20 times a second: leases, stalls, deadlines, retention, and
  // Settle.
  absl::Status Tick();

  // Answers all parked calls with UNAVAILABLE. Later ones are parked and answered by the next
  // Shutdown.
  void Shutdown();

  // For tests and the services.
  const JobTable& table() const { return *table_; }
  const Membership& members() const { return members_; }

 private:
  Coordinator(std::unique_ptr<JobTable> table, CheckpointArchive& archive, const Clock& clock,
              SerialExecutor& logic, SerialExecutor& disk, SerialExecutor& planning,
              CoordinatorOptions options);

  absl::Status SaveProgress();

  const CoordinatorOptions options_;
  const Clock& clock_;
  // When Tick ran last.
  absl::Duration last_tick_;
  const std::unique_ptr<JobTable> table_;
  Membership members_;
  CoordinatorMetrics metrics_;
  JobLifecycle lifecycle_;
  Scheduler scheduler_;
  MoveScheduler moves_;
  CheckpointLifecycle checkpoints_;
  CheckpointRequests checkpoint_requests_;
  RoundFormation rounds_;
  StallWatch stalls_;
  DaemonRequests daemon_requests_;
  TaskRequests task_requests_;
  JobRequests job_requests_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_COORDINATOR_H_
