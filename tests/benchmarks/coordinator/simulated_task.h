#ifndef MUSTER_TESTS_BENCHMARKS_COORDINATOR_SIMULATED_TASK_H_
#define MUSTER_TESTS_BENCHMARKS_COORDINATOR_SIMULATED_TASK_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/retry.h"
#include "proto/cluster_service.pb.h"
#include "proto/task_service.grpc.pb.h"
#include "proto/task_service.pb.h"
#include "tests/benchmarks/coordinator/fleet.h"

namespace muster {

// A task that meets the others and reports progress as a real one, without training: 4 reports a
// second, each of ten steps with three series. Its connection is its own, as a process's is.
// Thread-safe.
class SimulatedTask : public std::enable_shared_from_this<SimulatedTask> {
 public:
  // `daemon` is the number of the daemon that runs the task.
  SimulatedTask(const v1::TaskOrder& order, Fleet& fleet, int daemon);

  // Meets the other tasks for the first time; reports from then on.
  void Start();
  // Leaves its round, as if a collective call had failed, with a replica at this step.
  void MeetAgain(uint64_t replica_step);
  // Does nothing more.
  void End();

 private:
  void Meet();
  void Met(uint64_t attempt, const absl::Status& status, const v1::RendezvousReply& reply);
  void ReportAfter(absl::Duration delay);
  void Report();
  void Reported(uint64_t round, uint64_t step, const absl::Status& status,
                const v1::ReportProgressReply& reply);

  const v1::TaskIdentity identity_;
  const bool in_rounds_;
  Fleet& fleet_;
  const int daemon_;
  const std::unique_ptr<v1::TaskService::Stub> stub_;

  absl::Mutex mutex_;
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool reporting_ ABSL_GUARDED_BY(mutex_) = false;
  // Numbers the calls to meet: answers to earlier ones do not count.
  uint64_t attempt_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  // Steps of its replica; 0: it has none.
  uint64_t replica_step_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last step that the coordinator was told of, and the number of that report in its round.
  uint64_t told_step_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t report_number_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COORDINATOR_SIMULATED_TASK_H_
