#include "worker/runtime/program/program_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/base/macros.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/text/printable.h"
#include "worker/runtime/program/process_tree.h"

namespace muster {
namespace {

// Time between looks where the system has no pidfd.
constexpr absl::Duration kNoPidfdLook = absl::Milliseconds(20);
// Milliseconds without output after which whoever takes it is called.
constexpr int kQuietMs = 500;
// Descriptor by which the child says why it could not run the program.
constexpr int kReportDescriptor = 3;

// The child's last step before it failed, and errno then.
struct ChildFailure {
  enum Step : int { kFolder, kProgram };
  int step = kProgram;
  int error = 0;
};

absl::Status SystemError(absl::string_view what) {
  return absl::InternalError(absl::StrCat("start the program: ", what, ": ", std::strerror(errno)));
}

std::string PathOf(const std::vector<std::string>& environment) {
  for (const std::string& variable : environment) {
    absl::string_view value = variable;
    if (absl::ConsumePrefix(&value, "PATH=")) return std::string(value);
  }
  return "";
}

bool IsProgram(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && access(path.c_str(), X_OK) == 0;
}

// Returns the file of the command. A relative path with a slash counts from the working folder, as
// the child finds it.
absl::StatusOr<std::string> FindProgram(const ProgramCommand& command) {
  const std::string& name = command.arguments.front();
  if (absl::StrContains(name, '/')) return name;
  const std::string path = PathOf(command.environment);
  for (const absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    std::string file = absl::StrCat(folder, "/", name);
    if (IsProgram(file)) return file;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "model.program.command[0] is \"", PrintableLine(name),
      "\", and there is no such program in the folders of PATH on this worker, ",
      PrintableLine(path),
      " (not the PATH of whoever started the worker); give the program's path, such as "
      "/srv/venv/bin/python, or set PATH in model.program.environment"));
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Everything that the child needs, made before the fork: the child of a process with threads may
// not allocate.
struct ChildPlan {
  const char* file = nullptr;
  char** arguments = nullptr;
  char** environment = nullptr;
  const char* folder = nullptr;
  int null = -1;
  int output = -1;
  int report = -1;
  pid_t parent = 0;
};

// Runs in the child. Calls only what signal handlers may call.
[[noreturn]] void RunChild(const ChildPlan& plan) {
  ChildFailure failure;
  // The sources lie above kReportDescriptor, so that no target overwrites one.
  dup2(plan.null, 0);
  dup2(plan.output, 1);
  dup2(plan.output, 2);
  dup3(plan.report, kReportDescriptor, O_CLOEXEC);
  syscall(SYS_close_range, kReportDescriptor + 1, ~0u, 0);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  // The parent may have ended before it said so.
  if (getppid() != plan.parent) _exit(127);
  if (chdir(plan.folder) != 0) {
    failure.step = ChildFailure::kFolder;
  } else {
    execve(plan.file, plan.arguments, plan.environment);
  }
  failure.error = errno;
  const ssize_t written = write(kReportDescriptor, &failure, sizeof(failure));
  _exit(written == sizeof(failure) ? 127 : 126);
}

absl::Status DescribeFailure(const ChildFailure& failure, const ProgramCommand& command) {
  const char* const reason = std::strerror(failure.error);
  if (failure.step == ChildFailure::kFolder) {
    return absl::InvalidArgumentError(absl::StrCat("model.program.working_folder is \"",
                                                   PrintableLine(command.working_folder),
                                                   "\", which the worker cannot enter: ", reason));
  }
  const absl::string_view hint =
      failure.error == ENOEXEC ? "; a script begins with a line such as #!/bin/sh" : "";
  return absl::InvalidArgumentError(
      absl::StrCat("model.program.command[0] is \"", PrintableLine(command.arguments.front()),
                   "\", which the worker cannot run: ", reason, hint));
}

// Moves a descriptor above those that the child uses.
int AboveTargets(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, kReportDescriptor + 1);
  close(fd);
  return moved;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramProcess>> ProgramProcess::Start(
    const ProgramCommand& command, std::function<void(absl::string_view)> output) {
  MUSTER_ASSIGN_OR_RETURN(const std::string file, FindProgram(command));
  int outputs[2], reports[2];
  if (pipe2(outputs, O_CLOEXEC) != 0) return SystemError("pipe");
  if (pipe2(reports, O_CLOEXEC) != 0) {
    close(outputs[0]);
    close(outputs[1]);
    return SystemError("pipe");
  }
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = command.environment;
  std::vector<char*> argument_pointers = Pointers(arguments);
  std::vector<char*> environment_pointers = Pointers(environment);
  ChildPlan plan;
  plan.file = file.c_str();
  plan.arguments = argument_pointers.data();
  plan.environment = environment_pointers.data();
  plan.folder = command.working_folder.c_str();
  plan.null = AboveTargets(open("/dev/null", O_RDONLY | O_CLOEXEC));
  plan.output = AboveTargets(outputs[1]);
  plan.report = AboveTargets(reports[1]);
  plan.parent = getpid();
  const pid_t pid = plan.null < 0 || plan.output < 0 || plan.report < 0 ? -1 : fork();
  if (pid == 0) RunChild(plan);
  const absl::Status forked = pid < 0 ? SystemError("fork") : absl::OkStatus();
  close(plan.null);
  close(plan.output);
  close(plan.report);
  ChildFailure failure;
  ssize_t got = 0;
  do {
    got = read(reports[0], &failure, sizeof(failure));
  } while (got < 0 && errno == EINTR);
  close(reports[0]);
  if (!forked.ok() || got == sizeof(failure)) {
    close(outputs[0]);
    MUSTER_RETURN_IF_ERROR(forked);
    waitpid(pid, nullptr, 0);
    return DescribeFailure(failure, command);
  }
  fcntl(outputs[0], F_SETFL, O_NONBLOCK);
  return std::unique_ptr<ProgramProcess>(
      new ProgramProcess(pid, outputs[0], eventfd(0, EFD_CLOEXEC), std::move(output)));
}

ProgramProcess::ProgramProcess(pid_t pid, int output, int end,
                               std::function<void(absl::string_view)> take)
    : pid_(pid),
      process_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
      output_(output),
      end_(end),
      take_(std::move(take)),
      reader_([this] { ReadOutput(); }) {}

ProgramProcess::~ProgramProcess() {
  KillAll();
  if (process_ >= 0) close(process_);
  close(output_);
  close(end_);
}

absl::optional<int> ProgramProcess::Wait(absl::Duration most) {
  if (!status_.has_value()) {
    pollfd ends = {.fd = process_, .events = POLLIN, .revents = 0};
    if (process_ >= 0) {
      poll(&ends, 1, static_cast<int>(absl::ToInt64Milliseconds(most)));
    } else {
      absl::SleepFor(std::min(most, kNoPidfdLook));
    }
  }
  int status = 0;
  for (pid_t ended = waitpid(-1, &status, WNOHANG); ended > 0;
       ended = waitpid(-1, &status, WNOHANG)) {
    if (ended == pid_) status_ = status;
  }
  return status_;
}

void ProgramProcess::Terminate() {
  // Once it is reaped, another process may have its id.
  if (status_.has_value()) return;
  kill(pid_, SIGTERM);
  // Stopped processes cannot act on the signal, nor help the one that does.
  for (const pid_t process : FindDescendants()) kill(process, SIGCONT);
}

void ProgramProcess::KillAll() {
  if (!reader_.joinable()) return;
  KillDescendants();
  const uint64_t one = 1;
  const ssize_t written = write(end_, &one, sizeof(one));
  ABSL_ASSERT(written == sizeof(one));
  static_cast<void>(written);
  reader_.join();
}

void ProgramProcess::ReadOutput() {
  std::vector<char> buffer(1 << 16);
  pollfd descriptors[2] = {{output_, POLLIN, 0}, {end_, POLLIN, 0}};
  while (true) {
    const int ready = poll(descriptors, 2, kQuietMs);
    if (ready < 0) continue;  // EINTR.
    if (ready == 0) {
      take_({});
      continue;
    }
    const ssize_t got = read(output_, buffer.data(), buffer.size());
    if (got > 0) {
      take_({buffer.data(), static_cast<size_t>(got)});
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    // All that was written before the end is read by now.
    if (descriptors[1].revents != 0) return;
    // Nobody writes any more: only the end is still awaited.
    if (got == 0) descriptors[0].fd = -1;
  }
}

std::string DescribeEnd(int status) {
  if (WIFSIGNALED(status)) {
    return absl::StrCat("was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                        ")");
  }
  return absl::StrCat("ended with status ", WEXITSTATUS(status));
}

}  // namespace muster
