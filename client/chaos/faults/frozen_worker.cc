#include "client/chaos/faults/frozen_worker.h"

#include <signal.h>

#include "client/chaos/faults/process_tree.h"

namespace muster {

FrozenWorker::FrozenWorker(pid_t daemon) : daemon_(daemon) {
  kill(daemon_, SIGSTOP);
  tasks_ = ProcessTree()[daemon_];
  for (const pid_t task : tasks_) kill(task, SIGSTOP);
}

void FrozenWorker::ContinueTasks() {
  for (const pid_t task : tasks_) kill(task, SIGCONT);
}

FrozenWorker::~FrozenWorker() {
  ContinueTasks();
  kill(daemon_, SIGCONT);
}

}  // namespace muster
