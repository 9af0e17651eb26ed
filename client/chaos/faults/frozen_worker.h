#ifndef MUSTER_CLIENT_CHAOS_FAULTS_FROZEN_WORKER_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_FROZEN_WORKER_H_

#include <sys/types.h>

#include <vector>

namespace muster {

// A worker's daemon and its tasks that stand still (SIGSTOP), like those of a frozen machine or
// container, until this object ends. If this process is killed before, the cluster's supervisor
// continues the daemon as it stops it, and the daemon kills its tasks.
class FrozenWorker {
 public:
  // Stops the daemon first, so that it starts no further task.
  explicit FrozenWorker(pid_t daemon);
  // Continues all of them.
  ~FrozenWorker();

  FrozenWorker(const FrozenWorker&) = delete;
  FrozenWorker& operator=(const FrozenWorker&) = delete;

  // Continues the tasks alone: nobody has told them what has happened since, and nobody ends them.
  void ContinueTasks();

 private:
  const pid_t daemon_;
  std::vector<pid_t> tasks_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_FROZEN_WORKER_H_
