#include "worker/runtime/process/task_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/text/utf8.h"
#include "common/transport/descriptor.h"
#include "proto/cluster_service.pb.h"
#include "worker/runtime/process/framed_message.h"
#include "worker/runtime/process/silence_watch.h"

namespace muster {
namespace {

// Time that a process with a grace has after it to say how its program ended.
constexpr absl::Duration kAfterGrace = absl::Seconds(10);
// Time that it then has to kill the processes of its program, which only it can find.
constexpr absl::Duration kToKillProgram = absl::Seconds(5);
// Removes the signs of life from the head of what came from a process. Returns whether there were
// any.
bool TakeSigns(std::string& received) {
  constexpr size_t kSignBytes = sizeof(uint64_t);
  size_t signs = 0;
  while (received.size() - signs >= kSignBytes) {
    uint64_t length = 0;
    std::memcpy(&length, received.data() + signs, kSignBytes);
    if (length != 0) break;
    signs += kSignBytes;
  }
  received.erase(0, signs);
  return signs > 0;
}

absl::Status SystemError(absl::string_view what, int error) {
  return absl::InternalError(absl::StrCat("start a task: ", what, ": ", std::strerror(error)));
}

// Attributes for posix_spawn: default signal handlers and no blocked signals, whatever the daemon
// set for itself.
class SpawnAttributes {
 public:
  enum class Group { kDaemons, kItsOwn };

  explicit SpawnAttributes(Group group) {
    posix_spawnattr_init(&attributes_);
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                                 (group == Group::kItsOwn ? POSIX_SPAWN_SETPGROUP : 0));
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }

  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// Says what the child's descriptors become.
class SpawnDescriptors {
 public:
  SpawnDescriptors(int control, int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    // The sources lie above all targets, so that no target overwrites one.
    posix_spawn_file_actions_adddup2(&actions_, output, 1);
    posix_spawn_file_actions_adddup2(&actions_, output, 2);
    posix_spawn_file_actions_adddup2(&actions_, control, kControlDescriptor);
    posix_spawn_file_actions_addclosefrom_np(&actions_, kControlDescriptor + 1);
  }
  ~SpawnDescriptors() { posix_spawn_file_actions_destroy(&actions_); }

  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Moves a descriptor above those that the child uses.
absl::StatusOr<int> AboveControl(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, kControlDescriptor + 1);
  if (moved < 0) return SystemError("fcntl", errno);
  return moved;
}

v1::TaskReport ReportFor(const v1::TaskOrder& order) {
  v1::TaskReport report;
  report.set_job_id(order.job_id());
  report.set_generation(order.generation());
  report.set_slot(order.slot());
  report.set_incarnation(order.incarnation());
  return report;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TaskProcess>> TaskProcess::Start(const v1::TaskOrder& order,
                                                                TaskProcessOptions options) {
  int sockets[2], pipes[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return SystemError("socketpair", errno);
  }
  Descriptor control(sockets[0]), childs_control(sockets[1]);
  if (pipe2(pipes, O_CLOEXEC) != 0) return SystemError("pipe", errno);
  Descriptor output(pipes[0]), childs_output(pipes[1]);
  absl::StatusOr<int> high_control = AboveControl(childs_control.get());
  if (!high_control.ok()) return high_control.status();
  Descriptor control_source(*high_control);
  absl::StatusOr<int> high_output = AboveControl(childs_output.get());
  if (!high_output.ok()) return high_output.status();
  Descriptor output_source(*high_output);

  std::vector<std::string> arguments = {options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment = options.environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);

  pid_t pid = 0;
  {
    const SpawnDescriptors descriptors(control_source.get(), output_source.get());
    const SpawnAttributes attributes(options.grace.has_value() ? SpawnAttributes::Group::kItsOwn
                                                               : SpawnAttributes::Group::kDaemons);
    const int error =
        posix_spawn(&pid, options.program.c_str(), descriptors.get(), attributes.get(),
                    Pointers(arguments).data(), Pointers(environment).data());
    if (error != 0) return SystemError(options.program, error);
  }
  return std::unique_ptr<TaskProcess>(new TaskProcess(pid, control.Release(), output.Release(),
                                                      std::make_unique<const v1::TaskOrder>(order),
                                                      std::move(options)));
}

TaskProcess::TaskProcess(pid_t pid, int control, int output,
                         std::unique_ptr<const v1::TaskOrder> order, TaskProcessOptions options)
    : pid_(pid),
      control_(control),
      output_(output),
      order_(std::move(order)),
      options_(std::move(options)),
      thread_([this] { Watch(); }) {}

TaskProcess::~TaskProcess() {
  Kill();
  thread_.join();
  close(control_);
  close(output_);
}

void TaskProcess::Kill() {
  if (!options_.grace.has_value()) return KillNow();
  absl::MutexLock lock(&mutex_);
  if (reaped_ || kill_at_.has_value()) return;
  kill_at_ = absl::Now() + *options_.grace + kAfterGrace;
  if (has_order_) AskToEnd();
}

void TaskProcess::AskToEnd() {
  // If the process does not read it, its time runs out.
  send(control_, &kStopByte, sizeof(kStopByte), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void TaskProcess::KillNow() {
  absl::MutexLock lock(&mutex_);
  if (!reaped_) kill(options_.grace.has_value() ? -pid_ : pid_, SIGKILL);
}

void TaskProcess::KillIfOverdue() {
  {
    absl::MutexLock lock(&mutex_);
    if (!kill_at_.has_value() || absl::Now() < *kill_at_) return;
    if (!control_ended_) {
      control_ended_ = true;
      kill_at_ = absl::Now() + kToKillProgram;
      shutdown(control_, SHUT_WR);
      return;
    }
  }
  KillNow();
}

void TaskProcess::Watch() {
  // A child that died before it read all of its order shows below, like any other death.
  WriteFrame(control_, order_->SerializeAsString()).IgnoreError();
  {
    absl::MutexLock lock(&mutex_);
    has_order_ = true;
    if (kill_at_.has_value()) AskToEnd();
  }
  const std::string result = Drain();
  options_.ended(Reap(result));
}

std::string TaskProcess::Drain() {
  std::string result;
  std::string output;
  bool within_line = false;
  std::vector<char> buffer(1 << 16);
  const RealClock clock;
  SilenceWatch silence(options_.silence);
  pollfd descriptors[2] = {{output_, POLLIN, 0}, {control_, POLLIN, 0}};
  int open = 2;
  const bool looks = options_.grace.has_value() || options_.silence < absl::InfiniteDuration();
  const int look_ms = looks ? absl::ToInt64Milliseconds(SilenceWatch::kLookEvery) : -1;
  while (open > 0) {
    const int ready = poll(descriptors, 2, look_ms);
    if (ready < 0) continue;  // EINTR.
    KillIfOverdue();
    if (silence.IsSilent(clock.Monotonic())) {
      silenced_ = true;
      silence.End();
      KillNow();
    }
    for (pollfd& descriptor : descriptors) {
      if (descriptor.fd < 0 || descriptor.revents == 0) continue;
      const ssize_t got = read(descriptor.fd, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        descriptor.fd = -1;  // Left out by poll from here on.
        --open;
      } else if (descriptor.fd == output_) {
        // A character that is cut waits for its other bytes.
        output.append(buffer.data(), got);
        within_line = output.back() != '\n';
        const size_t unfinished = UnfinishedBytes(output);
        options_.output(absl::string_view(output).substr(0, output.size() - unfinished));
        output.erase(0, output.size() - unfinished);
      } else {
        result.append(buffer.data(), got);
        if (TakeSigns(result)) silence.Heard(clock.Monotonic());
        if (!result.empty()) silence.End();
      }
    }
  }
  if (!output.empty()) options_.output(output);
  // What comes next in the job's log is another's.
  if (within_line) options_.output("\n");
  return result;
}

v1::TaskReport TaskProcess::Reap(const std::string& result) {
  int status = 0;
  // The process is not reaped yet. Afterwards another process may get the id, so Kill must not use
  // it.
  siginfo_t info;
  while (waitid(P_PID, pid_, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  {
    absl::MutexLock lock(&mutex_);
    reaped_ = true;
    // The group's id is taken as long as its leader is not reaped.
    if (options_.grace.has_value()) kill(-pid_, SIGKILL);
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  v1::TaskReport report;
  uint64_t length = 0;
  if (result.size() > sizeof(length)) {
    std::memcpy(&length, result.data(), sizeof(length));
    if (result.size() == sizeof(length) + length &&
        report.ParseFromString(result.substr(sizeof(length)))) {
      return report;
    }
  }
  report = ReportFor(*order_);
  report.set_state(v1::TaskReport::DIED);
  if (silenced_) {
    report.set_message(absl::StrCat("process ", pid_, " showed no sign of life for ",
                                    absl::FormatDuration(options_.silence),
                                    ", as one that is stopped or frozen, and was killed "
                                    "(--task-silence-ms of muster-worker)"));
  } else if (WIFSIGNALED(status)) {
    report.set_message(absl::StrCat("process ", pid_, " was ended by signal ", WTERMSIG(status),
                                    " (", strsignal(WTERMSIG(status)), ")"));
  } else {
    report.set_message(absl::StrCat("process ", pid_, " ended with status ", WEXITSTATUS(status),
                                    " and no result"));
  }
  return report;
}

}  // namespace muster
