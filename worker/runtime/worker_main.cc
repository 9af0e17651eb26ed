// muster-worker: the worker daemon. Offers slots, and runs each task in a child process.

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/machine/multiplies_bfloat16.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/mutex_tuning.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
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
#include "common/rpc/memory_tuning.h"
#include "common/rpc/retry.h"
#include "common/rpc/rpc_credentials.h"
#include "common/rpc/shutdown_signal.h"
#include "common/transport/sockets/host_of.h"
#include "worker/runtime/daemon/log_shipper.h"
#include "worker/runtime/daemon/worker_daemon.h"
#include "worker/runtime/device/list_devices.h"
#include "worker/runtime/process/collective_flags.h"
#include "worker/runtime/process/offload_folder_flag.h"
#include "worker/runtime/process/prepared_data_flags.h"
#include "worker/runtime/process/task_process.h"
#include "worker/runtime/process/task_program.h"

namespace muster {
namespace {

constexpr char kProgram[] = "muster-worker";
// Parts of the 5 seconds in which a daemon must stop.
constexpr absl::Duration kStopTimeout = absl::Seconds(4);
constexpr absl::Duration kLeaveTimeout = absl::Seconds(1);
constexpr absl::Duration kLogTimeout = absl::Seconds(1);
// Time between two looks at --leave-file.
constexpr absl::Duration kLeaveFilePoll = absl::Seconds(1);
// A driver can take long to start its GPUs.
constexpr absl::Duration kListTimeout = absl::Minutes(1);

struct Flags {
  std::string id;
  std::string listen = "0.0.0.0:7072";
  std::string coordinator;
  uint32_t slots = 0;
  uint32_t processors = 0;
  uint64_t memory_bytes = 0;
  std::string address_file;
  bool end_with_parent = false;
  CollectiveFlags collectives;
  FileAccess file_access = FileAccess::kUser;
  std::vector<std::string> data_roots;
  std::string offload_folder;
  PreparedDataFlags prepared;
  bool allow_programs = false;
  int task_silence_ms = 5000;
  int leave_grace_ms = 30000;
  std::string leave_file;
  std::string program_token_file;
  TlsFiles tls;
  std::string devices = "auto";
  std::string device_program;
  std::string task_program;
};

void Log(absl::string_view line) { DaemonLog(kProgram, line); }

int Fail(const absl::Status& status) {
  Log(status.message());
  return EXIT_FAILURE;
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--id", flags.id,
                 "Name of this worker in the cluster: unique, and the same at every start. "
                 "Default: the machine's name with the port.")
      ->check(Utf8Flag());
  app.add_option("--listen", flags.listen,
                 "HOST:PORT to listen on for health and reflection; port 0 takes a free one. The "
                 "address is printed on standard output once the worker listens.")
      ->capture_default_str();
  app.add_option("--coordinator", flags.coordinator, "HOST:PORT of muster-coordinator.")
      ->check(Utf8Flag())
      ->required();
  app.add_option("--slots", flags.slots,
                 "Most tasks that may run here at once. Default: one for each of --processors.")
      ->check(CLI::PositiveNumber);
  app.add_option("--processors", flags.processors,
                 "Processors that the tasks here share. A task of a job without threads_per_worker "
                 "computes with this number divided by the slots. Default: all processors that "
                 "this worker may use.")
      ->check(CLI::PositiveNumber);
  app.add_option("--memory", flags.memory_bytes,
                 "Most memory that all tasks together may take, such as 4GiB. Default: 3/4 of the "
                 "memory of the machine or of the worker's container.")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--address-file", flags.address_file,
                 "File to write the worker's address to once it listens.");
  app.add_flag("--end-with-parent", flags.end_with_parent,
               "Stop, as on SIGTERM, when the process that started this one ends.");
  AddDataRootFlag(app, flags.data_roots);
  AddOffloadFolderFlag(app, flags.offload_folder);
  AddPreparedDataFlags(app, flags.prepared);
  app.add_flag("--allow-programs", flags.allow_programs,
               "Let jobs run programs of their own (model.program) as this worker's user, who "
               "should have no other rights: --data-root does not bind them. Only together with "
               "--program-token-file or, with other machines, the --tls-* flags.");
  app.add_option("--program-token-file", flags.program_token_file,
                 "The coordinator's --program-token-file: programs are run only on orders of one "
                 "who knows its token.");
  app.add_option("--task-silence-ms", flags.task_silence_ms,
                 "A task whose process shows no sign of life for this long, as one that is stopped "
                 "or frozen, is killed, and another takes its place. 0: never, as for a debugger.")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--leave-grace-ms", flags.leave_grace_ms,
                 "Most time from a notice (SIGTERM, or --leave-file) to the end of this worker. In "
                 "it the tasks leave between two steps, and others go on in their place; without "
                 "tasks the worker ends at once, as it does on a second signal. 0: the first "
                 "signal ends it at once.")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--leave-file", flags.leave_file,
                 "A file whose appearance is a notice, like SIGTERM: for whatever watches a "
                 "cloud's announcements that a machine ends.")
      ->check(Utf8Flag());
  AddCollectiveFlags(app, flags.collectives);
  AddFileAccessFlag(app, flags.file_access);
  AddTlsFlags(app, flags.tls);
  app.add_option("--devices", flags.devices,
                 "GPUs for tasks to train on, one task per GPU: a number of GPUs (the first ones "
                 "are used), or auto for all GPUs if NVIDIA's driver is installed.")
      ->capture_default_str();
  app.add_option("--device-program", flags.device_program,
                 "Program that lists the GPUs and runs tasks on them. Default: muster-cuda-task "
                 "beside this program, if it is there; it is built with --config=cuda.");
  // For tests.
  app.add_option("--task-program", flags.task_program, "Program that runs tasks on processors.")
      ->group("");
}

absl::Duration Silence(const Flags& flags) {
  return flags.task_silence_ms == 0 ? absl::InfiniteDuration()
                                    : absl::Milliseconds(flags.task_silence_ms);
}

std::string DeviceProgram(const Flags& flags) {
  if (!flags.device_program.empty()) return flags.device_program;
  std::error_code ignored;
  const std::filesystem::path beside =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "muster-cuda-task";
  return std::filesystem::exists(beside, ignored) ? beside.string() : "";
}

bool HasNvidiaDriver() {
  std::error_code ignored;
  return std::filesystem::exists("/dev/nvidiactl", ignored);
}

// Returns the devices that --devices asks for. Errors name the flag.
absl::StatusOr<std::vector<OfferedDevice>> OfferedDevices(const Flags& flags,
                                                          const std::string& program) {
  uint32_t wanted = 0;
  const bool all = flags.devices == "auto";
  if (!all && !absl::SimpleAtoi(flags.devices, &wanted)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--devices is \"", flags.devices, "\"; give a number, or auto"));
  }
  const bool none = all && flags.device_program.empty() && !HasNvidiaDriver();
  if (none || (!all && wanted == 0)) return std::vector<OfferedDevice>();
  if (program.empty()) {
    if (all) return std::vector<OfferedDevice>();
    return absl::FailedPreconditionError(absl::StrCat(
        "--devices is ", wanted,
        ", but there is no muster-cuda-task beside this program; build it with --config=cuda, or "
        "name it with --device-program"));
  }
  absl::StatusOr<FoundDevices> found = ListDevices(program, kListTimeout);
  if (all && !found.ok()) {
    Log(absl::StrCat("offers no devices: ", found.status().message()));
    return std::vector<OfferedDevice>();
  }
  MUSTER_RETURN_IF_ERROR(found.status());
  for (const std::string& why : found->left_out) Log(absl::StrCat("leaves a device out: ", why));
  if (all) return std::move(found->devices);
  if (found->devices.size() < wanted) {
    return absl::FailedPreconditionError(
        absl::StrCat("--devices is ", wanted, ", but ", program, " finds ", found->devices.size()));
  }
  found->devices.resize(wanted);
  return std::move(found->devices);
}

// Returns the token of those who may order programs; empty: the connection proves it, or there are
// no programs. Anybody between plain-text machines could have the worker run anything, and anybody
// on this machine who takes the coordinator's port while that is down.
absl::StatusOr<std::string> ProgramToken(const Flags& flags) {
  const bool is_local = IsLoopback(flags.listen) && IsLoopback(flags.coordinator);
  if (flags.allow_programs && flags.tls.None() && !is_local) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--allow-programs is given, but this worker talks to other machines (--listen is ",
        flags.listen, ", --coordinator ", flags.coordinator,
        ") without TLS; give --tls-authority, --tls-certificate and --tls-key, or stay on "
        "127.0.0.1"));
  }
  if (!flags.program_token_file.empty()) {
    MUSTER_RETURN_IF_ERROR(CheckIsPrivate(flags.program_token_file));
    return ReadTokenFile(flags.program_token_file);
  }
  if (!flags.allow_programs || !flags.tls.None()) return std::string();
  return absl::FailedPreconditionError(
      "--allow-programs is given without --program-token-file, so any user of this machine who "
      "answers at the coordinator's port could run programs here; give the coordinator's "
      "--program-token-file, or the --tls-* flags");
}

DaemonIdentity Identity(const Flags& flags, const std::string& listening) {
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  DaemonIdentity identity;
  identity.kind = DaemonIdentity::Kind::kWorker;
  identity.id =
      flags.id.empty() ? absl::StrCat(host, listening.substr(listening.rfind(':'))) : flags.id;
  identity.process_nonce = RandomBits();
  identity.address = AdvertisedAddress("", listening);
  identity.processors = flags.processors > 0 ? flags.processors : UsableProcessors();
  identity.slots = flags.slots > 0 ? flags.slots : identity.processors;
  identity.memory_bytes = flags.memory_bytes > 0 ? flags.memory_bytes : DefaultMemoryBytes();
  identity.multiplies_bf16 = MultipliesBFloat16();
  identity.allows_programs = flags.allow_programs;
  return identity;
}

// Returns what an examination of the cluster measures of this worker: the way to it leads to where
// its tasks listen for other tasks.
ExaminerOptions ExaminedParts(const Flags& flags, const CollectiveFlags& collectives,
                              const RpcCredentials& credentials) {
  ExaminerOptions options = {.tls = flags.tls, .credentials = credentials};
  options.offload_folder = flags.offload_folder;
  options.data_roots = flags.data_roots;
  const HostEndpointOptions tasks = EndpointOptions(collectives, credentials);
  // The default is looked up each time, as each task does, for names may be known later only.
  options.listener = [tasks, coordinator = flags.coordinator] {
    LinkListenerOptions listener = {.host = tasks.host.empty() ? DefaultCollectivesHost(coordinator)
                                                               : tasks.host};
    listener.first_port = tasks.first_port;
    listener.last_port = tasks.last_port;
    listener.advertised_host = tasks.advertised_host;
    return listener;
  };
  return options;
}

// Blocks until the daemon is told to end; returns by what, for the log.
std::string AwaitNotice(const std::string& leave_file, ShutdownSignal& shutdown) {
  if (leave_file.empty()) return shutdown.Wait();
  while (true) {
    if (std::optional<std::string> signal = shutdown.WaitFor(kLeaveFilePoll)) return *signal;
    std::error_code ignored;
    if (std::filesystem::exists(leave_file, ignored)) {
      return absl::StrCat("the file ", leave_file, " is there");
    }
  }
}

int Run(const Flags& flags) {
  LimitFileAccess(flags.file_access);
  ShutdownSignal shutdown;
  // Called before devices are listed, which can take long.
  if (flags.end_with_parent) EndWithParent();
  // Tasks open the roots again.
  auto roots = RootsOfDaemon(flags.listen, flags.data_roots);
  if (!roots.ok()) return Fail(roots.status());
  LocalStorage checkpoints(*std::move(roots));
  const absl::StatusOr<std::string> program_token = ProgramToken(flags);
  if (!program_token.ok()) return Fail(program_token.status());
  const std::string device_program = DeviceProgram(flags);
  absl::StatusOr<std::vector<OfferedDevice>> devices = OfferedDevices(flags, device_program);
  if (!devices.ok()) return Fail(devices.status());
  for (const OfferedDevice& device : *devices) {
    Log(absl::StrCat("offers device ", device.number, ", ", device.name, " with ",
                     device.memory_bytes >> 20, " MiB"));
  }
  const auto credentials = RpcCredentials::Of(flags.tls, TlsUse::kCallsAndServes);
  if (!credentials.ok()) return Fail(credentials.status());
  auto port = RpcPort::Listen(flags.listen, *credentials);
  if (!port.ok()) return Fail(port.status());
  auto server = RpcServer::Start(*std::move(port), {}, {.ready = false});
  if (!server.ok()) return Fail(server.status());
  const std::string& listening = (*server)->address();
  if (absl::Status status = AnnounceAddress(kProgram, listening, flags.address_file);
      !status.ok()) {
    return Fail(status);
  }

  RealClock clock;
  RealWaiter waiter;
  // True if the cluster refuses this process, or nobody can reach it.
  std::atomic<bool> failed = false;
  const std::unique_ptr<LogSink> sink = MakeGrpcLogSink(flags.coordinator, *credentials);
  LogShipper logs(*sink, {});
  const std::unique_ptr<ClusterClient> cluster =
      MakeGrpcClusterClient(flags.coordinator, *credentials);
  WorkerDaemonOptions options;
  options.identity = Identity(flags, listening);
  options.identity.devices = *std::move(devices);
  options.log = Log;
  std::atomic<uint64_t> incarnation = 0;
  options.member = [&incarnation, &server = **server](uint64_t present) {
    incarnation = present;
    server.SetReady(present != 0);
  };
  options.refused = [&](const absl::Status& status) {
    failed = true;
    shutdown.Trigger(std::string(status.message()));
  };
  CollectiveFlags collectives = flags.collectives;
  if (collectives.host.empty() && !IsOnAllAddresses(listening)) {
    collectives.host = HostOf(listening);
  }
  Examiner examiner(ExaminedParts(flags, collectives, *credentials), checkpoints, clock);
  ExaminationLoop examination(
      MakeGrpcExaminationClient(flags.coordinator, *credentials), examiner,
      {.id = options.identity.id, .incarnation = [&incarnation] { return incarnation.load(); }});
  std::vector<std::string> arguments = Arguments(collectives);
  for (std::string& argument : DataRootArguments(flags.data_roots)) {
    arguments.push_back(std::move(argument));
  }
  arguments.push_back("--offload-folder=" + flags.offload_folder);
  for (std::string& argument : Arguments(flags.prepared)) arguments.push_back(std::move(argument));
  for (std::string& argument : TlsArguments(flags.tls)) arguments.push_back(std::move(argument));
  TaskStarter start = ProcessTaskStarter({.coordinator_address = flags.coordinator,
                                          .arguments = std::move(arguments),
                                          .device_program = device_program,
                                          .task_program = flags.task_program,
                                          .allow_programs = flags.allow_programs,
                                          .worker_id = options.identity.id,
                                          .program_token = *program_token,
                                          .silence = Silence(flags)},
                                         logs);
  WorkerDaemon daemon(*cluster, std::move(start), std::move(options), clock, waiter);

  SelfCheck self_check({.address = listening}, *credentials, [&](const absl::Status& status) {
    failed = true;
    shutdown.Trigger(std::string(status.message()));
  });
  std::string why = AwaitNotice(flags.leave_file, shutdown);
  if (const auto grace = absl::Milliseconds(flags.leave_grace_ms);
      !failed && grace > absl::ZeroDuration()) {
    Log(absl::StrCat("leaves within ", absl::FormatDuration(grace), ": ", why));
    daemon.GiveNotice(grace, [&](absl::string_view left) { shutdown.Trigger(std::string(left)); });
    why = shutdown.WaitFor(grace).value_or("the time to leave is over (--leave-grace-ms)");
  }
  Log(absl::StrCat("stopping: ", why));
  if (failed) ExitWithin(kStopTimeout, EXIT_FAILURE);
  daemon.Stop(kLeaveTimeout);
  logs.Flush(kLogTimeout);
  (*server)->Shutdown(absl::ZeroDuration());
  // A disk that does not answer holds an examination, and would hold this process.
  ExitWithin(kStopTimeout, failed ? EXIT_FAILURE : EXIT_SUCCESS);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::KeepMessageMemory();
  muster::SkipDeadlockDetection();
  muster::IgnoreFileSignals();
  if (argc >= 2 && std::strcmp(argv[1], muster::kTaskFlag) == 0) {
    return muster::RunTaskProgram(argc - 1, argv + 1, muster::kProgram, {});
  }
  muster::RaiseDescriptorLimit();
  CLI::App app(
      "Worker of a Muster cluster: offers slots, and runs the tasks of training jobs in them, each "
      "in a process of its own. On SIGTERM its tasks leave, then it stops. Answers gRPC's health "
      "and reflection "
      "services.",
      muster::kProgram);
  muster::Flags flags;
  muster::AddFlags(app, flags);
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  return muster::Run(flags);
}
