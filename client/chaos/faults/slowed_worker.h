#ifndef MUSTER_CLIENT_CHAOS_FAULTS_SLOWED_WORKER_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_SLOWED_WORKER_H_

#include <sys/types.h>

#include <set>

namespace muster {

// A worker whose tasks compute at a fraction of their speed until this object ends: they are
// stopped (SIGSTOP) for three of four turns, like those of a machine that others keep busy. Its
// daemon stays as fast as it was. If this process is killed before, the daemon kills its tasks,
// which stand still.
class SlowedWorker {
 public:
  explicit SlowedWorker(pid_t daemon) : daemon_(daemon) {}
  // Continues the tasks.
  ~SlowedWorker();

  SlowedWorker(const SlowedWorker&) = delete;
  SlowedWorker& operator=(const SlowedWorker&) = delete;

  // Stops the tasks that the daemon has now, or continues them. Call it at regular intervals, some
  // fifty times a second.
  void Turn();

 private:
  const pid_t daemon_;
  int turn_ = 0;
  // Tasks that stand still.
  std::set<pid_t> stopped_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_SLOWED_WORKER_H_
