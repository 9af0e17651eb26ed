#ifndef MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_PROCESS_H_
#define MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace muster {

struct ProgramCommand {
  // The command, found in PATH of `environment` unless it has a slash, and its arguments.
  std::vector<std::string> arguments;
  // The whole environment, as NAME=value.
  std::vector<std::string> environment;
  // An absolute path, where the program begins.
  std::string working_folder;
};

// A program's process. It has three standard descriptors and no others, empty standard input, the
// given environment alone, default signal handlers, and no way to gain privileges (no_new_privs).
// The kernel kills it when the thread that started it ends. It stays in the process group of this
// process, which ignores SIGTERM. Used by one thread.
class ProgramProcess {
 public:
  // Starts the program. `output` is called with all that the process, and those that it starts,
  // write to standard output and error, and without text while they write nothing, on a thread of
  // its own. InvalidArgument: the command or the folder is not there, or is not what it should be
  // (names it). Internal: no process could be started. REQUIRES: AdoptOrphans was called.
  static absl::StatusOr<std::unique_ptr<ProgramProcess>> Start(
      const ProgramCommand& command, std::function<void(absl::string_view)> output);
  // Kills all that is left, and waits until `output` has all that was written.
  ~ProgramProcess();

  ProgramProcess(const ProgramProcess&) = delete;
  ProgramProcess& operator=(const ProgramProcess&) = delete;

  // Waits until the program has ended, at most this long. Returns the status that waitpid tells, if
  // it has. Orphans that have ended are reaped, too.
  absl::optional<int> Wait(absl::Duration most);

  // Asks the program's own process to end (SIGTERM), and has it go on if it is stopped. Processes
  // that it started are its own affair: it may need them to end well.
  void Terminate();

  // Kills all processes of the program, and blocks until they are gone and their output is read.
  void KillAll();

  pid_t pid() const { return pid_; }

 private:
  ProgramProcess(pid_t pid, int output, int end, std::function<void(absl::string_view)> take);

  // Runs on the thread: reads until told to end, and then what is there.
  void ReadOutput();

  const pid_t pid_;
  // A pidfd; -1: the system has none.
  const int process_;
  const int output_;
  // An eventfd that tells ReadOutput to end.
  const int end_;
  const std::function<void(absl::string_view)> take_;
  absl::optional<int> status_;
  std::thread reader_;
};

// Says how a process ended, by the status that waitpid tells: "ended with status 3", "was ended by
// signal 9 (Killed)".
std::string DescribeEnd(int status);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_PROCESS_H_
