#ifndef MUSTER_CLIENT_CHAOS_FAULTS_CLUSTER_PROCESSES_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_CLUSTER_PROCESSES_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace muster {

// A daemon of a cluster on this machine, or a task of one.
struct ClusterProcess {
  // Of the daemon, such as "coordinator" or "worker-0".
  std::string daemon;
  bool is_task = false;
  pid_t pid = 0;

  // Such as "a task of worker-0".
  std::string Name() const { return is_task ? "a task of " + daemon : daemon; }
};

// The supervisor's daemons that run now, and the tasks of workers, each before its worker.
std::vector<ClusterProcess> ClusterProcesses(pid_t supervisor);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_CLUSTER_PROCESSES_H_
