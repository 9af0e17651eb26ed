#ifndef MUSTER_CLIENT_CHAOS_FAULTS_CLUSTER_PROCESSES_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_CLUSTER_PROCESSES_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace muster {

// A daemon of a cluster on this machine, or one of its tasks.
struct ClusterProcess {
  // The daemon's name, such as "coordinator" or "worker-0".
  std::string daemon;
  bool is_task = false;
  pid_t pid = 0;

  // Returns a name such as "a task of worker-0".
  std::string Name() const { return is_task ? "a task of " + daemon : daemon; }
};

// Returns the supervisor's daemons that run now and the tasks of workers, each task before its
// worker.
std::vector<ClusterProcess> ClusterProcesses(pid_t supervisor);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_CLUSTER_PROCESSES_H_
