#ifndef MUSTER_TESTS_BENCHMARKS_COORDINATOR_SIMULATED_DAEMON_H_
#define MUSTER_TESTS_BENCHMARKS_COORDINATOR_SIMULATED_DAEMON_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/retry.h"
#include "proto/cluster_service.grpc.pb.h"
#include "proto/cluster_service.pb.h"
#include "tests/benchmarks/coordinator/fleet.h"
#include "tests/benchmarks/coordinator/simulated_task.h"

namespace muster {

// A worker with one slot, or a server, that calls the coordinator as a real daemon does (see
// common/rpc/membership): registers, keeps a heartbeat parked, and carries out its orders. Its
// connection is its own. Thread-safe; lives until the process ends, since calls refer to it.
class SimulatedDaemon {
 public:
  enum class Kind { kWorker, kServer };
  // `number` distinguishes the daemon from others of its kind in the cluster.
  SimulatedDaemon(Kind kind, int number, Fleet& fleet);

  void Start();
  // Ends the daemon's process and its tasks, and starts another of the same id and address.
  void Replace();
  // Has its tasks leave their rounds, with replicas at this step.
  void MeetAgain(uint64_t replica_step);

 private:
  struct Running {
    v1::TaskReport report;
    std::shared_ptr<SimulatedTask> task;
  };

  void Register();
  void Registered(uint64_t process, const absl::Status& status,
                  const v1::RegisterDaemonReply& reply);
  void Beat();
  void Beaten(uint64_t process, bool first, const absl::Status& status,
              const v1::HeartbeatReply& reply);
  // Starts and ends tasks so that exactly those ordered run. Returns those to start.
  std::vector<std::shared_ptr<SimulatedTask>> TakeOrders(const v1::HeartbeatReply& orders)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndTasks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Kind kind_;
  const std::string id_;
  const std::string address_;
  Fleet& fleet_;
  // Of the fleet.
  const int number_;
  const std::unique_ptr<v1::ClusterService::Stub> stub_;

  absl::Mutex mutex_;
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  // Counts the daemon's processes; what an earlier one's calls bring is ignored.
  uint64_t process_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t incarnation_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration lease_ ABSL_GUARDED_BY(mutex_);
  bool first_beat_ ABSL_GUARDED_BY(mutex_) = true;
  uint64_t seen_orders_ ABSL_GUARDED_BY(mutex_) = 0;
  // By job, generation, slot and incarnation.
  std::map<std::string, Running> tasks_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::DropOrder> dropped_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COORDINATOR_SIMULATED_DAEMON_H_
