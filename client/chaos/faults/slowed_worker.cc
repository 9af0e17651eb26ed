#include "client/chaos/faults/slowed_worker.h"

#include <signal.h>

#include <vector>

#include "client/chaos/faults/process_tree.h"

namespace muster {
namespace {

// The tasks run in one turn of so many.
constexpr int kTurns = 4;

}  // namespace

void SlowedWorker::Turn() {
  if (turn_++ % kTurns == 0) {
    for (const pid_t task : stopped_) kill(task, SIGCONT);
    stopped_.clear();
    return;
  }
  if (!stopped_.empty()) return;
  const std::vector<pid_t> tasks = ProcessTree()[daemon_];
  for (const pid_t task : tasks) {
    if (kill(task, SIGSTOP) == 0) stopped_.insert(task);
  }
}

SlowedWorker::~SlowedWorker() {
  for (const pid_t task : stopped_) kill(task, SIGCONT);
}

}  // namespace muster
