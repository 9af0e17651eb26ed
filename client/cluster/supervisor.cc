#include "client/cluster/supervisor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/cluster/spawn.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/daemon/tls_flags.h"
#include "common/text/printable.h"

namespace muster {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(200);
constexpr absl::Duration kLongestBackoff = absl::Seconds(5);
// A daemon that lived this long is healthy: its next death is restarted quickly again.
constexpr absl::Duration kHealthyAfter = absl::Seconds(10);
constexpr absl::Duration kDaemonStartPatience = absl::Seconds(20);
constexpr absl::Duration kDaemonStopPatience = absl::Seconds(6);
constexpr absl::Duration kDaemonPoll = absl::Milliseconds(20);
constexpr absl::string_view kListening = "listening on ";
constexpr absl::string_view kPage = "page on ";
// A killed supervisor leaves no daemon behind.
constexpr char kEndWithParent[] = "--end-with-parent";

void Say(const std::string& line) {
  absl::PrintF("%s supervisor: %s\n",
               absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()),
               PrintableLine(line));
  std::fflush(stdout);
}

// Returns the rest of the line after the first `mark` in what a log file holds from `offset` on;
// empty while it is not there.
std::string Told(const std::string& log, size_t offset, absl::string_view mark) {
  std::ifstream file(log);
  file.seekg(static_cast<std::streamoff>(offset));
  std::string line;
  while (std::getline(file, line)) {
    const size_t at = absl::string_view(line).find(mark);
    if (at != std::string::npos && !file.eof()) return line.substr(at + mark.size());
  }
  return "";
}

// Returns the port at the end of an address, or of a page's URL; 0: there is none.
int PortOf(absl::string_view address) {
  absl::ConsumeSuffix(&address, "/");
  const size_t colon = address.rfind(':');
  int port = 0;
  const bool known =
      colon != absl::string_view::npos && absl::SimpleAtoi(address.substr(colon + 1), &port);
  return known ? port : 0;
}

// Returns true if nobody listens at this port of loopback.
bool IsFree(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  // Connections of the cluster before may linger.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool free = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return free;
}

// Returns the port that was asked for; in place of any, the last one if it is free.
int PortToTake(int asked, int last) {
  return asked == 0 && last != 0 && IsFree(last) ? last : asked;
}

std::string DescribeExit(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("killed by signal ", WTERMSIG(status));
  return absl::StrCat("ended with status ", WEXITSTATUS(status));
}

}  // namespace

Supervisor::Supervisor(Options options)
    : options_(std::move(options)), folder_(options_.data_dir) {}

std::vector<std::string> Supervisor::Command(const std::string& name,
                                             std::vector<std::string> command) const {
  command.push_back(kEndWithParent);
  for (std::string& argument : TlsArguments(options_.tls)) command.push_back(std::move(argument));
  for (absl::string_view flag : options_.daemon_flags) {
    if (!absl::ConsumePrefix(&flag, absl::StrCat(name, ":"))) continue;
    const absl::string_view until_value = flag.substr(0, flag.find('=') + 1);
    std::erase_if(command, [until_value](const std::string& given) {
      return !until_value.empty() && absl::StartsWith(given, until_value);
    });
    command.emplace_back(flag);
  }
  return command;
}

absl::StatusOr<Supervisor::Coordinator> Supervisor::StartCoordinator() {
  MUSTER_ASSIGN_OR_RETURN(const std::string program, FindProgram("muster-coordinator"));
  Daemon coordinator{.name = "coordinator"};
  const auto command = [&](const std::string& listen, const std::string& page) {
    std::vector<std::string> command = {program, "--listen=" + listen,
                                        "--data-dir=" + folder_.DataOf("coordinator"),
                                        "--checkpoint-root=" + folder_.CheckpointRoot()};
    if (!page.empty()) command.push_back("--page-listen=" + page);
    if (options_.allow_programs) {
      command.push_back("--program-token-file=" + folder_.ProgramTokenFile());
    }
    if (const std::string alert = folder_.ReadAlertCommand(); !alert.empty()) {
      command.push_back("--alert-command=" + alert);
    }
    return Command(coordinator.name, std::move(command));
  };
  const ClusterPorts last = folder_.ReadPorts();
  const std::string page =
      options_.page_port.has_value()
          ? absl::StrCat("127.0.0.1:", PortToTake(*options_.page_port, last.page))
          : "";
  coordinator.command =
      command(absl::StrCat("127.0.0.1:", PortToTake(options_.port, last.coordinator)), page);
  coordinator.backoff = kFirstBackoff;
  coordinator.started = clock_.Monotonic();
  const std::string log = folder_.LogOf("coordinator");
  std::error_code no_log_yet;
  const auto size = std::filesystem::file_size(log, no_log_yet);
  const size_t offset = no_log_yet ? 0 : size;
  MUSTER_ASSIGN_OR_RETURN(coordinator.pid,
                          Spawn({.command = coordinator.command, .output_file = log}));
  Coordinator started;
  const absl::Duration until = clock_.Monotonic() + kDaemonStartPatience;
  while (started.address.empty()) {
    int status = 0;
    if (waitpid(coordinator.pid, &status, WNOHANG) == coordinator.pid) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the coordinator did not start: ", DescribeExit(status), "; its log is ", log));
    }
    if (clock_.Monotonic() > until) {
      kill(coordinator.pid, SIGKILL);
      waitpid(coordinator.pid, &status, 0);
      return absl::DeadlineExceededError(absl::StrCat("the coordinator did not start within ",
                                                      absl::FormatDuration(kDaemonStartPatience),
                                                      "; its log is ", log));
    }
    absl::SleepFor(kDaemonPoll);
    started.address = Told(log, offset, kListening);
  }
  // Told before the address, if it is served.
  started.page = Told(log, offset, kPage);
  if (started.page.empty() && options_.page_port.value_or(0) != 0) {
    kill(coordinator.pid, SIGKILL);
    waitpid(coordinator.pid, nullptr, 0);
    return absl::FailedPreconditionError(
        absl::StrCat("the page cannot be served on port ", *options_.page_port,
                     ", which may be in use: give another --page-port, or 0 for a free one"));
  }
  // A restarted coordinator must be found where its daemons, clients and browsers know it; so must
  // that of the next cluster in this folder.
  absl::string_view served = started.page;
  served.remove_prefix(std::min(served.size(), served.find("//") + 2));
  absl::ConsumeSuffix(&served, "/");
  coordinator.command = command(started.address, std::string(served));
  daemons_.push_back(std::move(coordinator));
  const ClusterPorts ports = {.coordinator = PortOf(started.address), .page = PortOf(started.page)};
  if (const absl::Status noted = folder_.WritePorts(ports); !noted.ok()) {
    Say(absl::StrCat(noted.message(), "; the next cluster in this folder takes other ports"));
  }
  return started;
}

absl::Status Supervisor::AddDaemons(const std::string& coordinator_address) {
  MUSTER_ASSIGN_OR_RETURN(const std::string server, FindProgram("muster-server"));
  MUSTER_ASSIGN_OR_RETURN(const std::string worker, FindProgram("muster-worker"));
  for (int i = 0; i < options_.servers; ++i) {
    const std::string name = absl::StrCat("server-", i);
    daemons_.push_back({.name = name,
                        .command = Command(name, {server, "--id=" + name, "--listen=127.0.0.1:0",
                                                  "--coordinator=" + coordinator_address,
                                                  "--data-dir=" + folder_.DataOf(name)}),
                        .backoff = kFirstBackoff});
  }
  // The workers share one machine.
  const int processors = std::max(1, UsableProcessors() / std::max(1, options_.workers));
  for (int i = 0; i < options_.workers; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    std::vector<std::string> command =
        Command(name, {worker, "--id=" + name, "--listen=127.0.0.1:0",
                       "--coordinator=" + coordinator_address,
                       absl::StrCat("--slots=", options_.slots_per_worker),
                       absl::StrCat("--processors=", processors),
                       // The machine's devices are offered once.
                       i == 0 ? "--devices=auto" : "--devices=0"});
    command.insert(command.end(), options_.worker_flags.begin(), options_.worker_flags.end());
    if (options_.allow_programs) {
      command.push_back("--allow-programs");
      command.push_back("--program-token-file=" + folder_.ProgramTokenFile());
    }
    daemons_.push_back({.name = name, .command = std::move(command), .backoff = kFirstBackoff});
  }
  return absl::OkStatus();
}

absl::Status Supervisor::StartDue() {
  for (Daemon& daemon : daemons_) {
    if (daemon.pid != 0 || clock_.Monotonic() < daemon.start_at) continue;
    MUSTER_ASSIGN_OR_RETURN(
        daemon.pid, Spawn({.command = daemon.command, .output_file = folder_.LogOf(daemon.name)}));
    daemon.started = clock_.Monotonic();
    Say(absl::StrCat("started ", daemon.name, ", pid ", daemon.pid));
  }
  return absl::OkStatus();
}

void Supervisor::Reap() {
  for (Daemon& daemon : daemons_) {
    int status = 0;
    if (daemon.pid == 0 || waitpid(daemon.pid, &status, WNOHANG) != daemon.pid) continue;
    if (clock_.Monotonic() - daemon.started > kHealthyAfter) daemon.backoff = kFirstBackoff;
    Say(absl::StrCat(daemon.name, " (pid ", daemon.pid, ") ", DescribeExit(status),
                     "; starts again in ", absl::FormatDuration(daemon.backoff)));
    daemon.pid = 0;
    daemon.start_at = clock_.Monotonic() + daemon.backoff;
    daemon.backoff = std::min(daemon.backoff * 2, kLongestBackoff);
  }
}

void Supervisor::StopAll() {
  // Workers first: their tasks end before the servers that they push to.
  for (const char* kind : {"worker", "server", "coordinator"}) {
    const auto for_each = [&](auto action) {
      for (Daemon& daemon : daemons_) {
        if (daemon.pid != 0 && absl::StartsWith(daemon.name, kind)) action(daemon);
      }
    };
    for_each([](Daemon& daemon) {
      kill(daemon.pid, SIGTERM);
      // One that was stopped (SIGSTOP) hears of it only if it goes on, and ends its tasks then.
      kill(daemon.pid, SIGCONT);
    });
    const absl::Duration until = clock_.Monotonic() + kDaemonStopPatience;
    for_each([this, until](Daemon& daemon) {
      while (waitpid(daemon.pid, nullptr, WNOHANG) == 0) {
        if (clock_.Monotonic() > until) {
          Say(absl::StrCat(daemon.name, " (pid ", daemon.pid, ") ignores SIGTERM; killed"));
          kill(daemon.pid, SIGKILL);
          waitpid(daemon.pid, nullptr, 0);
          break;
        }
        absl::SleepFor(kDaemonPoll);
      }
      daemon.pid = 0;
    });
  }
}

absl::Status Supervisor::Run() {
  MUSTER_RETURN_IF_ERROR(folder_.Prepare());
  MUSTER_ASSIGN_OR_RETURN(const auto lock, folder_.TakeLock());
  lock->HoldToExit();
  // The pid that an earlier cluster left may be another process's by now.
  folder_.Forget();
  // Signals are taken one by one below; children start with none blocked.
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);

  // An owner may end while it has this process stopped.
  if (options_.owner != 0) prctl(PR_SET_PDEATHSIG, SIGCONT);
  if (options_.allow_programs) MUSTER_RETURN_IF_ERROR(folder_.WriteProgramToken());
  MUSTER_ASSIGN_OR_RETURN(const Coordinator coordinator, StartCoordinator());
  absl::Status status = AddDaemons(coordinator.address);
  if (status.ok()) {
    status = folder_.Write({.coordinator_address = coordinator.address,
                            .page = coordinator.page,
                            .supervisor_pid = getpid(),
                            .servers = options_.servers,
                            .workers = options_.workers,
                            .tls = options_.tls});
  }
  bool orphaned = false;
  while (status.ok() && !orphaned) {
    status = StartDue();
    const timespec patience = absl::ToTimespec(kFirstBackoff / 2);
    const int signal = sigtimedwait(&signals, nullptr, &patience);
    if (signal == SIGTERM || signal == SIGINT) break;
    Reap();
    orphaned = options_.owner != 0 && getppid() != options_.owner;
  }
  Say("stopping");
  StopAll();
  Say("stopped");
  // The owner may have ended while the daemons did.
  orphaned |= options_.owner != 0 && getppid() != options_.owner;
  std::error_code ignored;
  if (orphaned) std::filesystem::remove_all(folder_.path(), ignored);
  return status;
}

}  // namespace muster
