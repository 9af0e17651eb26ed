#include "tests/harness/process_cluster.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cluster/spawn.h"
#include "client/terminal/progress.h"
#include "common/base/status_macros.h"
#include "common/daemon/tls_flags.h"
#include "common/rpc/rpc_credentials.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(10);
// The time that a failure needs to say what was waited for, of that which the test runner gives.
constexpr absl::Duration kForDiagnosis = absl::Seconds(15);
constexpr size_t kLogTail = 3000;
constexpr char kListening[] = "listening on ";

std::string ReadFile(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string Tail(const std::string& text) {
  return text.size() <= kLogTail ? text : "…" + text.substr(text.size() - kLogTail);
}

using Clock = std::chrono::steady_clock;

// About when the process began, which is when the test runner began to wait.
const Clock::time_point kBegan = Clock::now();

// Returns whether the test runner is about to end this process: how long it waits is its own
// matter, so that a slow machine is given more in one place.
bool TimeIsOver() {
  const char* seconds = getenv("TEST_TIMEOUT");
  int64_t limit = 0;
  if (seconds == nullptr || !absl::SimpleAtoi(seconds, &limit)) return false;
  return Clock::now() - kBegan > absl::ToChronoSeconds(absl::Seconds(limit) - kForDiagnosis);
}

// Programs as the build lays them out among a test's run files.
std::string Program(const std::string& path) { return std::filesystem::absolute(path).string(); }

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessCluster>> ProcessCluster::Start(Options options) {
  auto cluster = std::unique_ptr<ProcessCluster>(new ProcessCluster(std::move(options)));
  MUSTER_RETURN_IF_ERROR(cluster->StartAll());
  return cluster;
}

absl::Status ProcessCluster::StartAll() {
  const char* root = getenv("TEST_TMPDIR");
  folder_ = absl::StrCat(root == nullptr ? "/tmp" : root, "/cluster-XXXXXX");
  if (mkdtemp(folder_.data()) == nullptr) return absl::InternalError("cannot make " + folder_);
  MUSTER_ASSIGN_OR_RETURN(const RpcCredentials credentials,
                          RpcCredentials::Of(options_.tls, TlsUse::kCallsAndServes));
  std::vector<std::string> coordinator = {
      Program("server/coordinator/muster-coordinator"), "--listen=127.0.0.1:0",
      "--data-dir=" + folder_ + "/coordinator", "--checkpoint-root=" + folder_ + "/checkpoints",
      absl::StrCat("--lease-ms=", absl::ToInt64Milliseconds(options_.lease))};
  const std::string token_file = folder_ + "/program.token";
  if (options_.allow_programs) {
    std::ofstream(token_file) << "token-of-the-test\n";
    chmod(token_file.c_str(), S_IRUSR | S_IWUSR);
    coordinator.push_back("--program-token-file=" + token_file);
  }
  for (const std::string& argument : options_.coordinator_arguments) {
    coordinator.push_back(argument);
  }
  AddDaemon("coordinator", std::move(coordinator));
  MUSTER_RETURN_IF_ERROR(Launch("coordinator"));
  while (coordinator_address_.empty()) {
    const std::string log = ReadFile(LogOf("coordinator"));
    const size_t at = log.find(kListening);
    const size_t end = log.find('\n', at);
    if (at != std::string::npos && end != std::string::npos) {
      coordinator_address_ =
          log.substr(at + sizeof(kListening) - 1, end - at - sizeof(kListening) + 1);
    } else if (TimeIsOver() || !IsRunning("coordinator")) {
      return absl::InternalError("the coordinator did not start:\n" + log);
    } else {
      absl::SleepFor(kPoll);
    }
  }
  daemons_["coordinator"].command[1] = "--listen=" + coordinator_address_;
  jobs_ = std::make_unique<JobClient>(coordinator_address_, credentials, JobClient::Patience(),
                                      options_.allow_programs ? token_file : "");
  for (int i = 0; i < options_.servers; ++i) {
    const std::string name = absl::StrCat("server-", i);
    AddDaemon(name,
              {Program("server/muster-server"), "--id=" + name, "--listen=127.0.0.1:0",
               "--coordinator=" + coordinator_address_, "--data-dir=" + folder_ + "/" + name});
    MUSTER_RETURN_IF_ERROR(Launch(name));
  }
  for (int i = 0; i < options_.workers; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    std::vector<std::string> command = {
        Program("worker/runtime/muster-worker"), "--id=" + name, "--listen=127.0.0.1:0",
        "--coordinator=" + coordinator_address_,
        absl::StrCat("--slots=", options_.slots_per_worker),
        // One thread a task, as in tasks without processes.
        absl::StrCat("--processors=", options_.slots_per_worker),
        absl::StrCat("--devices=", options_.devices_per_worker), "--offload-folder=" + folder_,
        "--prepared-folder=" + folder_ + "/prepared"};
    if (options_.devices_per_worker > 0) {
      command.push_back("--device-program=" + Program("worker/runtime/muster-emulated-task"));
    }
    if (options_.allow_programs) {
      command.push_back("--allow-programs");
      command.push_back("--program-token-file=" + token_file);
    }
    for (const std::string& argument : options_.worker_arguments) command.push_back(argument);
    AddDaemon(name, std::move(command));
    MUSTER_RETURN_IF_ERROR(Launch(name));
  }
  while (!TimeIsOver()) {
    v1::GetClusterReply reply;
    int live = 0;
    if (jobs_->Cluster(reply).ok()) {
      for (const v1::DaemonStatus& daemon : reply.daemons()) live += daemon.live();
    }
    if (live == options_.servers + options_.workers) return absl::OkStatus();
    absl::SleepFor(kPoll);
  }
  return absl::InternalError("not all daemons joined:\n" + Diagnose(""));
}

ProcessCluster::~ProcessCluster() {
  for (auto& [name, daemon] : daemons_) {
    if (daemon.pid != 0) Kill(name, SIGKILL);
  }
}

void ProcessCluster::AddDaemon(const std::string& name, std::vector<std::string> command) {
  for (const std::string& argument : TlsArguments(options_.tls)) command.push_back(argument);
  daemons_[name].command = std::move(command);
}

absl::Status ProcessCluster::Launch(const std::string& name) {
  Daemon& daemon = daemons_.at(name);
  MUSTER_ASSIGN_OR_RETURN(daemon.pid,
                          Spawn({.command = daemon.command, .output_file = LogOf(name)}));
  return absl::OkStatus();
}

void ProcessCluster::Kill(const std::string& name, int signal) {
  Daemon& daemon = daemons_.at(name);
  kill(daemon.pid, signal);
  waitpid(daemon.pid, nullptr, 0);
  daemon.pid = 0;
}

absl::Duration ProcessCluster::Stop(const std::string& name) {
  const absl::Time start = absl::Now();
  Kill(name, SIGTERM);
  return absl::Now() - start;
}

absl::Status ProcessCluster::Restart(const std::string& name) { return Launch(name); }

bool ProcessCluster::IsRunning(const std::string& name) const {
  const pid_t pid = daemons_.at(name).pid;
  return pid != 0 && waitpid(pid, nullptr, WNOHANG) == 0;
}

std::vector<pid_t> ProcessCluster::ChildrenOf(const std::string& name) const {
  std::vector<pid_t> children;
  for (const auto& thread :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid(name), "/task"))) {
    std::istringstream text(ReadFile(thread.path().string() + "/children"));
    pid_t child;
    while (text >> child) children.push_back(child);
  }
  return children;
}

absl::StatusOr<std::string> ProcessCluster::Submit(const v1::JobSpec& spec) {
  std::string job_id;
  MUSTER_RETURN_IF_ERROR(jobs_->Submit(spec, job_id));
  return job_id;
}

absl::StatusOr<v1::JobStatus> ProcessCluster::Await(
    const std::string& job_id, const std::function<bool(const v1::JobStatus&)>& condition) {
  while (true) {
    v1::JobStatus status;
    MUSTER_RETURN_IF_ERROR(jobs_->Get(job_id, status));
    if (condition(status)) return status;
    if (TimeIsOver() || HasEnded(status)) {
      status.clear_spec();
      return absl::DeadlineExceededError(
          absl::StrCat("job ", job_id, " did not get there: ", status.ShortDebugString(), "\n",
                       Diagnose(job_id)));
    }
    absl::SleepFor(kPoll);
  }
}

absl::StatusOr<v1::JobStatus> ProcessCluster::AwaitEnd(const std::string& job_id) {
  return Await(job_id, HasEnded);
}

absl::StatusOr<ExportedTensors> ProcessCluster::Export(const std::string& job_id) {
  v1::CheckpointRequest last;
  last.set_job_id(job_id);
  return Export(last);
}

absl::StatusOr<ExportedTensors> ProcessCluster::Export(const v1::CheckpointRequest& checkpoint) {
  std::string file;
  MUSTER_RETURN_IF_ERROR(jobs_->Export(checkpoint, [&](absl::string_view data) {
    file.append(data.data(), data.size());
    return absl::OkStatus();
  }));
  return ReadSafetensors(file);
}

std::string ProcessCluster::Diagnose(const std::string& job_id) {
  std::string text;
  if (!job_id.empty()) {
    std::string log;
    v1::ReadLogsRequest whole;
    whole.set_job_id(job_id);
    jobs_->Logs(whole, [&](absl::string_view chunk) { log.append(chunk.data(), chunk.size()); })
        .IgnoreError();
    v1::ListEventsReply events;
    jobs_->Events(job_id, events).IgnoreError();
    absl::StrAppend(&text, "--- job log\n", Tail(log), "\n--- events\n");
    for (const v1::JobEvent& event : events.events()) absl::StrAppend(&text, event.text(), "\n");
  }
  for (const auto& [name, daemon] : daemons_) {
    absl::StrAppend(&text, "--- ", name, "\n", Tail(ReadFile(LogOf(name))));
  }
  return text;
}

}  // namespace muster
