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

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/daemon/daemon.h"
#include "common/rpc/announce_address.h"
#include "common/rpc/channel.h"
#include "common/rpc/memory_tuning.h"
#include "common/rpc/retry.h"
#include "common/rpc/shutdown_signal.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
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

struct Flags {
  std::string id;
  std::string listen = "0.0.0.0:7072";
  std::string coordinator;
  uint32_t slots = 0;
  uint64_t memory_bytes = 0;
  std::string address_file;
  bool end_with_parent = false;
};

void Log(absl::string_view line) { DaemonLog(kProgram, line); }

int Fail(const absl::Status& status) {
  Log(status.message());
  return EXIT_FAILURE;
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
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  int port = 0;
  builder.AddListeningPort(flags.listen, ServerSideCredentials(), &port);
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
  const std::unique_ptr<LogSink> sink = MakeGrpcLogSink(flags.coordinator);
  LogShipper logs(*sink, {});
  const std::unique_ptr<ClusterClient> cluster = MakeGrpcClusterClient(flags.coordinator);
  WorkerDaemonOptions options;
  options.identity = Identity(flags, listening);
  options.log = Log;
  options.refused = [&](const absl::Status& status) {
    refused = true;
    shutdown.Trigger(std::string(status.message()));
  };
  WorkerDaemon daemon(*cluster, ProcessTaskStarter(flags.coordinator, logs), std::move(options),
                      clock, waiter);

  Log(absl::StrCat("stopping: ", shutdown.Wait()));
  daemon.Stop(kLeaveTimeout);
  logs.Flush(kLogTimeout);
  server->Shutdown(std::chrono::system_clock::now());
  return refused ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::KeepMessageMemory();
  // Not a flag for people: how a daemon starts the process of a task.
  if (argc == 2 && std::strcmp(argv[1], muster::kTaskFlag) == 0) {
    return muster::RunTaskChild(muster::kControlDescriptor);
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
