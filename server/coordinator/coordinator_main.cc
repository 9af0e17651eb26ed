// muster-coordinator: keeps a cluster's jobs, decides who runs them, and recovers what is lost.

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/mutex_tuning.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/root_mark.h"
#include "common/daemon/answer_watch.h"
#include "common/daemon/daemon.h"
#include "common/daemon/data_roots.h"
#include "common/daemon/file_access.h"
#include "common/daemon/parse_flags.h"
#include "common/daemon/rpc_server.h"
#include "common/daemon/self_check.h"
#include "common/daemon/tls_flags.h"
#include "common/daemon/token_file.h"
#include "common/daemon/utf8_flag.h"
#include "common/examination/examination_loop.h"
#include "common/examination/examiner.h"
#include "common/rpc/announce_address.h"
#include "common/rpc/rpc_credentials.h"
#include "common/rpc/shutdown_signal.h"
#include "grpcpp/impl/service_type.h"
#include "server/coordinator/alerts/alert_command.h"
#include "server/coordinator/checkpoints/storage_checkpoint_archive.h"
#include "server/coordinator/cluster_service.h"
#include "server/coordinator/coordinator_loop.h"
#include "server/coordinator/examination_service.h"
#include "server/coordinator/job_service.h"
#include "server/coordinator/page/page_service.h"
#include "server/coordinator/store/rocksdb_job_store.h"
#include "server/coordinator/task_service.h"
#include "server/page/patient_listener.h"

namespace muster {
namespace {

constexpr char kProgram[] = "muster-coordinator";
// Parts of the 5 seconds that a daemon has to stop.
constexpr absl::Duration kStopTimeout = absl::Seconds(4);
constexpr absl::Duration kDrainTimeout = absl::Seconds(2);

struct Flags {
  std::string listen = "0.0.0.0:7070";
  std::string advertise;
  std::string data_dir;
  std::string checkpoint_root;
  std::vector<std::string> data_roots;
  std::string page_listen;
  std::string page_token_file;
  std::vector<std::string> page_hosts;
  std::string program_token_file;
  std::string address_file;
  bool end_with_parent = false;
  int lease_ms = 5000;
  int elastic_wait_ms = 4000;
  int stall_timeout_ms = 600000;
  int slow_after_ms = 30000;
  std::optional<size_t> keep_jobs;
  size_t keep_jobs_without_checkpoint = 100;
  size_t max_jobs = 1000;
  uint64_t log_bytes = 4 << 20;
  std::string alert_command;
  FileAccess file_access = FileAccess::kUser;
  TlsFiles tls;
};

void Log(absl::string_view line) { DaemonLog(kProgram, line); }

int Fail(const absl::Status& status) {
  Log(std::string(status.message()));
  return EXIT_FAILURE;
}

void AddPageFlags(CLI::App& app, Flags& flags) {
  app.add_option(
      "--page-listen", flags.page_listen,
      "HOST:PORT on which to serve the page for browsers (/), its calls (/api/v1/) and "
      "metrics for Prometheus (/metrics); port 0 takes a free one. By HTTPS if "
      "--tls-certificate is given. If that is given, or other machines reach it, all but the "
      "metrics needs the token. Default: not served.");
  app.add_option(
         "--page-token-file", flags.page_token_file,
         "File with the token that whoever reads the page or cancels jobs on it must know: 16 or "
         "more letters and digits. Default: nobody cancels, and programs of this machine read, "
         "unless the coordinator has certificates.")
      ->check(Utf8Flag());
  app.add_option("--page-host", flags.page_hosts,
                 "Name under which browsers and Prometheus reach the page; may be repeated. IP "
                 "addresses and localhost are always taken, other names in a request's Host header "
                 "are refused.");
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--listen", flags.listen,
                 "HOST:PORT to listen on; port 0 takes a free one. The address is printed on "
                 "standard output once the coordinator listens.")
      ->capture_default_str();
  app.add_option("--advertise", flags.advertise,
                 "HOST:PORT at which tasks reach the coordinator. Default: the address of "
                 "--listen, with the machine's name in place of 0.0.0.0 or [::].")
      ->check(Utf8Flag());
  app.add_option("--data-dir", flags.data_dir,
                 "Folder for jobs, events and logs; created if it does not exist. A folder of "
                 "another program or of a newer release is refused.")
      ->check(Utf8Flag())
      ->required();
  app.add_option("--checkpoint-root", flags.checkpoint_root,
                 "Folder of all checkpoints, as file:///PATH or an absolute path, on a file system "
                 "that all daemons share. Default: the folder checkpoints in --data-dir.")
      ->check(Utf8Flag());
  AddDataRootFlag(app, flags.data_roots);
  app.add_option("--lease-ms", flags.lease_ms,
                 "Milliseconds that a daemon may be silent before its work goes to others. A short "
                 "lease notices a dead daemon sooner, a long one tolerates longer pauses.")
      ->capture_default_str()
      ->check(CLI::Range(100, 3600000));
  app.add_option("--elastic-wait-ms", flags.elastic_wait_ms,
                 "Milliseconds that a job with min_workers waits for a replacement after it lost a "
                 "worker. Then the job goes on with the workers that are left.")
      ->capture_default_str()
      ->check(CLI::Range(0, 3600000));
  app.add_option("--slow-after-ms", flags.slow_after_ms,
                 "Milliseconds for which a worker must stay slow before jobs with replace_slow "
                 "leave it.")
      ->capture_default_str()
      ->check(CLI::Range(1000, 86400000));
  app.add_option("--stall-timeout-ms", flags.stall_timeout_ms,
                 "Milliseconds after which a task that makes no progress while all others wait for "
                 "it is killed and replaced. Has to exceed the difference between the slowest and "
                 "the fastest task's step.")
      ->capture_default_str()
      ->check(CLI::Range(1000, 86400000));
  app.add_option("--keep-jobs", flags.keep_jobs,
                 "Number of ended jobs with checkpoints to keep. Of more, the one that ended first "
                 "is deleted WITH ITS CHECKPOINTS, logs and events, unless another job starts from "
                 "its checkpoints. Default: all are kept until `muster delete` removes them.")
      ->check(CLI::PositiveNumber);
  app.add_option("--keep-jobs-without-checkpoint", flags.keep_jobs_without_checkpoint,
                 "Number of ended jobs without a checkpoint to keep (evaluations, and runs that "
                 "failed before their first checkpoint). Of more, the one that ended first is "
                 "deleted with its logs and events.")
      ->capture_default_str();
  app.add_option("--max-jobs", flags.max_jobs,
                 "Most jobs that may wait or run at once; further jobs are refused.")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--log-bytes", flags.log_bytes,
                 "Bytes of log to keep per job, such as 4MiB; older text is dropped.")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--alert-command", flags.alert_command,
                 "Command for /bin/sh that is run when a job has failed, succeeded or was "
                 "cancelled, when a task that does not move is ended, and when a program reports a "
                 "loss that is not finite. It gets MUSTER_ALERT (which of these), MUSTER_JOB, "
                 "MUSTER_JOB_NAME, MUSTER_JOB_OWNER, MUSTER_STEP and MUSTER_ALERT_TEXT, and on "
                 "standard input all of them as JSON, such as for curl.")
      ->check(Utf8Flag());
  app.add_option(
         "--program-token-file", flags.program_token_file,
         "File with the token that whoever submits jobs that run programs must know: 16 or more "
         "letters and digits, in a file that only its user can read. Where other machines reach "
         "the coordinator, this needs the --tls-* flags. Default: no such job is taken.")
      ->check(Utf8Flag());
  AddPageFlags(app, flags);
  app.add_option("--address-file", flags.address_file,
                 "File to write the coordinator's address to once it listens.");
  app.add_flag("--end-with-parent", flags.end_with_parent,
               "Stop, as on SIGTERM, when the process that started this one ends.");
  AddFileAccessFlag(app, flags.file_access);
  AddTlsFlags(app, flags.tls);
}

// Opens the checkpoint root. Probes it, so that a bad root shows now and not at the first
// checkpoint; marks it, so that servers recognise it.
absl::StatusOr<std::string> CheckpointRoot(const Flags& flags, CheckpointStorage& storage) {
  std::string root = flags.checkpoint_root;
  if (root.empty()) {
    std::error_code error;
    root = std::filesystem::absolute(flags.data_dir, error).lexically_normal() / "checkpoints";
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("cannot tell where ", flags.data_dir, " lies: ", error.message()));
    }
  }
  MUSTER_RETURN_IF_ERROR(CheckIsUtf8(root));
  MUSTER_RETURN_IF_ERROR(ProbeStorage(storage, root));
  MUSTER_RETURN_IF_ERROR(MarkCheckpointRoot(storage, root));
  return root;
}

// Returns the folders that jobs may name: the checkpoint root and --data-root. Null: any folder.
absl::StatusOr<std::shared_ptr<const FileRoots>> RootsOf(const Flags& flags,
                                                         const std::string& checkpoint_root) {
  if (flags.data_roots.empty() && IsLoopback(flags.listen)) {
    return std::shared_ptr<const FileRoots>();
  }
  std::vector<std::string> folders = flags.data_roots;
  MUSTER_ASSIGN_OR_RETURN(std::string own, LocalPath(checkpoint_root));
  folders.push_back(std::move(own));
  return FileRoots::Create(folders);
}

// Returns the token for jobs that run programs; empty: there are no such jobs. Whoever knows it can
// have workers run anything.
absl::StatusOr<std::string> ProgramToken(const Flags& flags) {
  if (flags.program_token_file.empty()) return std::string();
  if (flags.tls.None() && !IsLoopback(flags.listen)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--program-token-file is given, but other machines reach this coordinator (--listen is ",
        flags.listen,
        ") without TLS, so the network between could have its own programs run; give ",
        "--tls-authority, --tls-certificate and --tls-key, or listen on 127.0.0.1"));
  }
  MUSTER_RETURN_IF_ERROR(CheckIsPrivate(flags.program_token_file));
  return ReadTokenFile(flags.program_token_file);
}

// The page, while it is served.
struct Page {
  std::unique_ptr<HttpService> service;
  std::unique_ptr<PatientListener> listener;
};

// Serves the page, and tells where and how. While another process has its port, the coordinator
// goes on without the page: jobs must not wait for it. REQUIRES: flags.page_listen is not empty.
absl::StatusOr<Page> StartPage(const Flags& flags, CoordinatorLoop& loop) {
  const bool loopback = IsLoopback(flags.page_listen), encrypted = !flags.tls.None();
  PageRules rules = {.hosts = flags.page_hosts};
  if (!flags.page_token_file.empty()) {
    MUSTER_ASSIGN_OR_RETURN(rules.token, ReadTokenFile(flags.page_token_file));
  }
  // Who asks for certificates or a token means it for users of this machine, too.
  rules.anybody_reads = loopback && !encrypted && rules.token.empty();
  Page page;
  page.service = MakePageService(loop, rules);
  PatientListener::Options options = {
      .listener = {.listen = flags.page_listen, .tls = flags.tls},
      .served =
          [encrypted](const std::string& address) {
            Log(absl::StrCat("page on ", encrypted ? "https://" : "http://", address, "/"));
          },
      .waits =
          [](const absl::Status& status) {
            Log(absl::StrCat("the page and /metrics are not served yet: ", status.message(),
                             "; tried again until it works, and all else goes on"));
          }};
  MUSTER_ASSIGN_OR_RETURN(page.listener, PatientListener::Create(options, *page.service));
  if (!loopback && !encrypted) {
    Log("WARNING: other machines reach the page without TLS, so the network between can read what "
        "it shows, and the token; give the coordinator certificates, or listen on 127.0.0.1");
  }
  if (!rules.anybody_reads && rules.token.empty()) {
    Log("nobody can read the page, only /metrics: there is no --page-token-file");
  }
  return page;
}

int Run(const Flags& flags) {
  LimitFileAccess(flags.file_access);
  ShutdownSignal shutdown;
  if (flags.end_with_parent) EndWithParent();
  const auto credentials = RpcCredentials::Of(flags.tls, TlsUse::kCallsAndServes);
  if (!credentials.ok()) return Fail(credentials.status());
  auto program_token = ProgramToken(flags);
  if (!program_token.ok()) return Fail(program_token.status());
  // Before the store is read: after a crash a large cluster's daemons and tasks all come at once.
  auto port = RpcPort::Listen(flags.listen, *credentials);
  if (!port.ok()) return Fail(port.status());
  const std::string listening = port->address();
  auto store = RocksDbJobStore::Open(flags.data_dir);
  if (!store.ok()) return Fail(store.status());
  LocalStorage whole_machine;
  auto root = CheckpointRoot(flags, whole_machine);
  if (!root.ok()) return Fail(root.status());
  auto roots = RootsOf(flags, *root);
  if (!roots.ok()) return Fail(roots.status());
  LocalStorage storage(*std::move(roots));
  StorageCheckpointArchive archive(storage, *root);

  RealClock clock;
  CoordinatorOptions options;
  options.lease = absl::Milliseconds(flags.lease_ms);
  options.elastic_wait = absl::Milliseconds(flags.elastic_wait_ms);
  options.stall_timeout = absl::Milliseconds(flags.stall_timeout_ms);
  options.slow_after = absl::Milliseconds(flags.slow_after_ms);
  options.ended_with_checkpoints_kept = flags.keep_jobs;
  options.ended_without_checkpoint_kept = flags.keep_jobs_without_checkpoint;
  options.log = Log;
  // Ends after the loop, which sends to it.
  std::optional<AlertCommand> alerts;
  if (!flags.alert_command.empty()) {
    alerts.emplace(AlertCommand::Options{.command = flags.alert_command, .log = Log});
    options.alert = [&alerts](JobAlert alert) { alerts->Send(std::move(alert)); };
  }
  options.max_unfinished_jobs = flags.max_jobs;
  options.max_log_bytes = flags.log_bytes;
  options.identity = std::random_device()();
  options.metric_sources.push_back([&store = **store] { return store.Metrics(); });

  options.program_token = *std::move(program_token);
  auto loop = CoordinatorLoop::Create(**store, archive, clock, options, [](const absl::Status& s) {
    Log(absl::StrCat("cannot go on, tried again soon: ", s.message()));
  });
  if (!loop.ok()) return Fail(loop.status());
  // Orders name our address: this work runs before all other.
  (*loop)->Post([address = AdvertisedAddress(flags.advertise, listening)](
                    Coordinator& coordinator) { coordinator.daemons().SetAddress(address); });
  const auto jobs = MakeJobService(**loop);
  const auto cluster = MakeClusterService(**loop);
  const auto tasks = MakeTaskService(**loop);
  const auto examinations = MakeExaminationService(**loop);
  auto server = RpcServer::Start(*std::move(port),
                                 {jobs.get(), cluster.get(), tasks.get(), examinations.get()},
                                 {.ready = false});
  if (!server.ok()) return Fail(server.status());
  Page page;
  if (!flags.page_listen.empty()) {
    auto started = StartPage(flags, **loop);
    if (!started.ok()) return Fail(started.status());
    page = *std::move(started);
  }
  // Whoever reads this line finds the page's address before it.
  if (absl::Status status = AnnounceAddress(kProgram, listening, flags.address_file);
      !status.ok()) {
    return Fail(status);
  }
  const AnswerWatch readiness(
      {},
      [&](std::function<void()> answer) {
        (*loop)->Post([answer = std::move(answer)](Coordinator&) { answer(); });
      },
      [&](bool answers) {
        if (!answers) Log("not ready: the thread that does its work does not answer");
        (*server)->SetReady(answers);
      });
  Examiner examiner({.tls = flags.tls,
                     .credentials = *credentials,
                     .data_folder = flags.data_dir,
                     .data_roots = flags.data_roots},
                    storage, clock);
  auto examination = std::make_unique<ExaminationLoop>(
      MakeExaminationClientHere(**loop), examiner,
      ExaminationLoopOptions{.incarnation = [] { return uint64_t{1}; }});
  std::atomic<bool> deaf = false;
  SelfCheck self_check({.address = listening}, *credentials, [&](const absl::Status& status) {
    deaf = true;
    shutdown.Trigger(std::string(status.message()));
  });
  Log(absl::StrCat("stopping: ", shutdown.Wait()));
  if (deaf) ExitWithin(kStopTimeout, EXIT_FAILURE);
  page.listener.reset();
  examination.reset();
  (*loop)->Shutdown();
  (*server)->Shutdown(kDrainTimeout);
  return deaf ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::SkipDeadlockDetection();
  muster::RaiseDescriptorLimit();
  muster::IgnoreFileSignals();
  CLI::App app(
      "Coordinator of a Muster cluster: keeps its jobs, places them on workers and servers, and "
      "recovers them. Stops cleanly on SIGTERM; running tasks go on and find it again. Answers "
      "gRPC's health and reflection services.",
      muster::kProgram);
  muster::Flags flags;
  muster::AddFlags(app, flags);
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  return muster::Run(flags);
}
