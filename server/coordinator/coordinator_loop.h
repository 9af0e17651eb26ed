#ifndef MUSTER_SERVER_COORDINATOR_COORDINATOR_LOOP_H_
#define MUSTER_SERVER_COORDINATOR_COORDINATOR_LOOP_H_

#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "server/coordinator/calls/serial_executor.h"
#include "server/coordinator/checkpoints/checkpoint_archive.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/requests/coordinator_options.h"
#include "server/coordinator/rpc_metrics.h"
#include "server/coordinator/store/job_store.h"

namespace muster {

// The coordinator's threads: one each for its logic, ticks, disk work on checkpoints, exports, and
// the planning of submitted jobs. Thread-safe.
class CoordinatorLoop {
 public:
  // Receives errors of the store or a tick, once per change of text, on the logic thread.
  using Trouble = std::function<void(const absl::Status&)>;

  // Starts the threads. Store, archive and clock outlive the loop. Errors are the store's.
  static absl::StatusOr<std::unique_ptr<CoordinatorLoop>> Create(JobStore& store,
                                                                 CheckpointArchive& archive,
                                                                 const Clock& clock,
                                                                 CoordinatorOptions options,
                                                                 Trouble trouble);
  // Shuts down, and runs what is still queued.
  ~CoordinatorLoop();

  // Runs `work` on the logic thread, then Coordinator::Settle. In a large cluster Settle takes
  // longer than most work, so one Settle follows all work that is queued. Never blocks.
  void Post(std::function<void(Coordinator&)> work);

  // Runs `work`, which takes a report of a daemon or a task, on the logic thread. Settle follows if
  // the report changed a record of a job or a daemon; most do not, and then the next tick settles.
  // Never blocks.
  void PostReport(std::function<void(Coordinator&)> work);

  // Runs `work`, which only reads, on the logic thread, ahead of what Post and PostReport have
  // queued (ThreadExecutor::PostAhead): it sees all that anyone was answered before. Spares the
  // coordinator to settle, which takes longer than most reads once there are many jobs; a parked
  // call is answered by a later Settle, which comes with the next tick at the latest. Never blocks.
  void PostRead(std::function<void(Coordinator&)> work);

  // Runs `work`, which may block, on the thread for exports.
  void PostExport(std::function<void(const CheckpointArchive&)> work);

  // Times of the rpcs that come to the loop. Shown with the coordinator's metrics.
  RpcMetrics& rpc_metrics() { return rpc_metrics_; }

  // Answers all parked calls, then later ones at once, with UNAVAILABLE. Blocks until those parked
  // are answered. Idempotent.
  void Shutdown();

 private:
  CoordinatorLoop(CheckpointArchive& archive, const Clock& clock, Trouble trouble);

  void RunTicks();
  // Settles after the work that is queued now. Logic thread only.
  void SettleSoon();
  void Note(const absl::Status& status);

  const CheckpointArchive& archive_;
  const Trouble trouble_;
  RpcMetrics rpc_metrics_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Logic thread only.
  std::unique_ptr<Coordinator> coordinator_;
  bool shut_down_ = false;
  // True while a Settle is queued.
  bool settles_soon_ = false;
  absl::Status last_trouble_;

  // The other executors post to the logic thread.
  std::unique_ptr<ThreadExecutor> logic_;
  std::unique_ptr<ThreadExecutor> disk_;
  std::unique_ptr<ThreadExecutor> exports_;
  std::unique_ptr<ThreadExecutor> planning_;
  std::thread ticker_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_COORDINATOR_LOOP_H_
