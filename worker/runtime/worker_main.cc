// muster-worker: the worker daemon. Offers slots, and runs each task in a child process of the same
// binary.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/mutex_tuning.h"
#include "common/daemon/daemon.h"
#include "common/daemon/tls_flags.h"
#include "common/rpc/announce_address.h"
#include "common/rpc/channel.h"
#include "common/rpc/memory_tuning.h"
#include "common/rpc/retry.h"
#include "common/rpc/rpc_credentials.h"
#include "common/rpc/shutdown_signal.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "worker/collectives/endpoint.h"
#include "worker/runtime/log_shipper.h"
#include "worker/runtime/task_child.h"
#include "worker/runtime/task_process.h"
#include "worker/runtime/worker_daemon.h"

namespace muster {
namespace {

constexpr char kProgram[] = "muster-worker";
// Parts of the 5 seconds that a daemon has to stop.
constexpr absl::Duration kLeaveTimeout = absl::Seconds(1);
constexpr absl::Duration kLogTimeout = absl::Seconds(1);
// Values of --collectives-transport.
constexpr char kSharedMemory[] = "shared_memory";
constexpr char kTcp[] = "tcp";

// How this machine's tasks train with one another and with those of other machines.
struct CollectiveFlags {
  std::string host;
  std::string transport = kSharedMemory;
  bool tls = false;
};

struct Flags {
  std::string id;
  std::string listen = "0.0.0.0:7072";
  std::string coordinator;
  uint32_t slots = 0;
  uint64_t memory_bytes = 0;
  std::string address_file;
  bool end_with_parent = false;
  CollectiveFlags collectives;
  TlsFiles tls;
};

void Log(absl::string_view line) { DaemonLog(kProgram, line); }

int Fail(const absl::Status& status) {
  Log(status.message());
  return EXIT_FAILURE;
}

// Flags of the daemon, which it hands on to the processes of its tasks.
void AddCollectiveFlags(CLI::App& app, CollectiveFlags& flags) {
  app.add_option("--collectives-host", flags.host,
                 "Name or address of this machine under which tasks on other machines reach those "
                 "here, to train by all-reduce. Default: that of --listen, or the machine's name "
                 "where it stands for all addresses.");
  app.add_option(
         "--collectives-transport", flags.transport,
         "What tasks of one machine train with one another by: shared_memory or tcp. Between "
         "machines it is TCP.")
      ->check(CLI::IsMember({kSharedMemory, kTcp}))
      ->capture_default_str();
  app.add_flag("--collectives-tls", flags.tls,
               "Encrypt TCP between tasks that train together; all workers of a job alike. Set by "
               "--tls-authority.");
}

std::vector<std::string> Arguments(const CollectiveFlags& flags) {
  std::vector<std::string> arguments = {"--collectives-host=" + flags.host,
                                        "--collectives-transport=" + flags.transport};
  if (flags.tls) arguments.push_back("--collectives-tls");
  return arguments;
}

HostEndpointOptions EndpointOptions(const CollectiveFlags& flags,
                                    const RpcCredentials& credentials) {
  HostEndpointOptions options;
  options.host = flags.host;
  options.shared_memory = flags.transport == kSharedMemory;
  options.tls = flags.tls || credentials.encrypted();
  return options;
}

// HOST of HOST:PORT, without the brackets of an IPv6 address.
std::string HostOf(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[') return host.substr(1, host.size() - 2);
  return host;
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--id", flags.id,
                 "Name of this worker in the cluster, unique and the same at every start. Default: "
                 "the machine's name with the port.");
  app.add_option("--listen", flags.listen,
                 "HOST:PORT to listen on for health and reflection; port 0 takes a free one. The "
                 "address is printed on standard output once the worker listens.")
      ->capture_default_str();
  app.add_option("--coordinator", flags.coordinator, "HOST:PORT of muster-coordinator.")
      ->required();
  app.add_option("--slots", flags.slots,
                 "Tasks that may run here at once. Default: one per processor.")
      ->check(CLI::PositiveNumber);
  app.add_option("--memory", flags.memory_bytes,
                 "Bytes that tasks may take together, such as 4GiB. Default: 3/4 of the machine's "
                 "memory.")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--address-file", flags.address_file,
                 "File to write the address listened on to, for whoever starts the worker.");
  app.add_flag("--end-with-parent", flags.end_with_parent,
               "Stop, as on SIGTERM, when the process that started this one ends in any way.");
  AddCollectiveFlags(app, flags.collectives);
  AddTlsFlags(app, flags.tls);
}

DaemonIdentity Identity(const Flags& flags, const std::string& listening) {
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  DaemonIdentity identity;
  identity.kind = DaemonIdentity::Kind::kWorker;
  identity.id =
      flags.id.empty() ? absl::StrCat(host, listening.substr(listening.rfind(':'))) : flags.id;
  identity.process_nonce = RandomBits();
  identity.address = listening;
  identity.slots =
      flags.slots > 0 ? flags.slots : std::max(1u, std::thread::hardware_concurrency());
  identity.memory_bytes = flags.memory_bytes > 0 ? flags.memory_bytes : DefaultMemoryBytes();
  return identity;
}

int Run(const Flags& flags) {
  ShutdownSignal shutdown;
  if (flags.end_with_parent) EndWithParent();
  const auto credentials = RpcCredentials::Of(flags.tls);
  if (!credentials.ok()) return Fail(credentials.status());
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  int port = 0;
  builder.AddListeningPort(flags.listen, credentials->server(), &port);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return Fail(CannotListen(flags.listen));
  }
  const std::string listening = WithPort(flags.listen, port);
  if (absl::Status status = AnnounceAddress(kProgram, listening, flags.address_file);
      !status.ok()) {
    return Fail(status);
  }

  RealClock clock;
  RealWaiter waiter;
  std::atomic<bool> refused = false;
  const std::unique_ptr<LogSink> sink = MakeGrpcLogSink(flags.coordinator, *credentials);
  LogShipper logs(*sink, {});
  const std::unique_ptr<ClusterClient> cluster =
      MakeGrpcClusterClient(flags.coordinator, *credentials);
  WorkerDaemonOptions options;
  options.identity = Identity(flags, listening);
  options.log = Log;
  options.refused = [&](const absl::Status& status) {
    refused = true;
    shutdown.Trigger(std::string(status.message()));
  };
  CollectiveFlags collectives = flags.collectives;
  if (collectives.host.empty()) collectives.host = HostOf(AdvertisedAddress("", listening));
  std::vector<std::string> arguments = Arguments(collectives);
  for (std::string& argument : TlsArguments(flags.tls)) arguments.push_back(std::move(argument));
  WorkerDaemon daemon(*cluster, ProcessTaskStarter(flags.coordinator, std::move(arguments), logs),
                      std::move(options), clock, waiter);

  Log(absl::StrCat("stopping: ", shutdown.Wait()));
  daemon.Stop(kLeaveTimeout);
  logs.Flush(kLogTimeout);
  server->Shutdown(std::chrono::system_clock::now());
  return refused ? EXIT_FAILURE : EXIT_SUCCESS;
}

// Not for people: how a daemon starts the process of a task.
int RunTaskProcess(int argc, char** argv) {
  CLI::App app("A task of muster-worker.", kProgram);
  CollectiveFlags flags;
  TlsFiles tls;
  AddCollectiveFlags(app, flags);
  AddTlsFlags(app, tls);
  CLI11_PARSE(app, argc, argv);
  // Of the same files as the daemon's, which may have changed since.
  const auto credentials = RpcCredentials::Of(tls);
  if (!credentials.ok()) return Fail(credentials.status());
  return RunTaskChild(kControlDescriptor, EndpointOptions(flags, *credentials), *credentials);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::KeepMessageMemory();
  muster::SkipDeadlockDetection();
  muster::IgnoreBrokenPipes();
  if (argc >= 2 && std::strcmp(argv[1], muster::kTaskFlag) == 0) {
    return muster::RunTaskProcess(argc - 1, argv + 1);
  }
  CLI::App app(
      "Worker of a Muster cluster: offers slots, and runs the tasks of training jobs in them, each "
      "in a process of its own. Stops cleanly on SIGTERM. Answers gRPC's health and reflection "
      "services.",
      muster::kProgram);
  muster::Flags flags;
  muster::AddFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  return muster::Run(flags);
}
