#ifndef MUSTER_WORKER_RUNTIME_PROCESS_TASK_PROCESS_H_
#define MUSTER_WORKER_RUNTIME_PROCESS_TASK_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace muster {

namespace v1 {
class TaskOrder;
class TaskReport;
}  // namespace v1

// A task's program, and callbacks, which run on a thread of the TaskProcess, one at a time.
struct TaskProcessOptions {
  // Program and arguments. The control socket is at descriptor 3; standard input is empty.
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments;
  // Added to the daemon's environment, as NAME=value.
  std::vector<std::string> environment;
  // For a task that runs a program. It leads a process group, and whatever is left in the group at
  // its end is killed. Kill asks it to end, by a byte on the control socket. Some seconds after
  // this time the socket ends, on which it kills its program; if it does not, it is killed itself.
  // Absent: Kill kills it at once, for a kill loses nothing.
  absl::optional<absl::Duration> grace;
  // A process that showed signs of life and then none for so long is stopped or frozen, and is
  // killed. A sign is an empty frame on the control socket, which a task writes each kSignPeriod.
  absl::Duration silence = absl::InfiniteDuration();
  // Called with what the process wrote to standard output and error, in pieces of any length; at
  // its end with a line break if it left a line unfinished.
  std::function<void(absl::string_view text)> output;
  // Called once, last, with the process's result (ENDED), or how it ended without one (DIED).
  std::function<void(const v1::TaskReport& report)> ended;
};

// First argument of a worker's process that runs a task.
inline constexpr char kTaskFlag[] = "--run-task";
// Descriptor of the control socket in the child.
inline constexpr int kControlDescriptor = 3;
// Time between two signs of life of a task.
inline constexpr absl::Duration kSignPeriod = absl::Seconds(1);
// The byte that a daemon writes to the control socket, after the order, to ask a task that runs a
// program to end.
inline constexpr char kStopByte = 's';

// A child process that runs one task. It is started by posix_spawn, not by fork, since the daemon
// has many threads. The process inherits only its three standard descriptors and the control
// socket. It reads its order from the socket, and ends when the socket closes, so it never outlives
// its daemon; nor do processes of a program that it runs. Thread-safe.
class TaskProcess {
 public:
  // Starts the process. Internal: no process could be started (says why).
  static absl::StatusOr<std::unique_ptr<TaskProcess>> Start(const v1::TaskOrder& order,
                                                            TaskProcessOptions options);
  // Kills the process as Kill does if it still runs, and blocks until `ended` has returned.
  ~TaskProcess();

  TaskProcess(const TaskProcess&) = delete;
  TaskProcess& operator=(const TaskProcess&) = delete;

  // Kills the process, in its grace if it has any, without blocking; `ended` follows. Idempotent.
  void Kill();

  pid_t pid() const { return pid_; }

 private:
  TaskProcess(pid_t pid, int control, int output, std::unique_ptr<const v1::TaskOrder> order,
              TaskProcessOptions options);

  // Sends the stop byte.
  void AskToEnd();
  // Kills the process, with its group if it leads one.
  void KillNow();
  // Runs on the thread until the process is gone.
  void Watch();
  // Ends the control socket of a process whose grace is over, and kills it some seconds later.
  void KillIfOverdue();
  // Passes on output until both descriptors end, and kills the process if it shows no more signs of
  // life. Returns the result, empty if none came.
  std::string Drain();
  v1::TaskReport Reap(const std::string& result);

  const pid_t pid_;
  const int control_;
  const int output_;
  const std::unique_ptr<const v1::TaskOrder> order_;
  const TaskProcessOptions options_;

  absl::Mutex mutex_;
  // Once true, the process id may belong to another process.
  bool reaped_ ABSL_GUARDED_BY(mutex_) = false;
  // True once the order is written; the stop byte comes after it.
  bool has_order_ ABSL_GUARDED_BY(mutex_) = false;
  // The time at which KillIfOverdue acts next, once the process was asked to end.
  absl::optional<absl::Time> kill_at_ ABSL_GUARDED_BY(mutex_);
  // True once the daemon's side of the control socket is closed for writing.
  bool control_ended_ ABSL_GUARDED_BY(mutex_) = false;
  // True once the process was killed for its silence; the thread's own.
  bool silenced_ = false;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROCESS_TASK_PROCESS_H_
