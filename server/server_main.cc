// muster-server: the parameter-server daemon. Holds partitions of jobs' tables and serves their
// tasks.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/mutex_tuning.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/root_mark.h"
#include "common/daemon/daemon.h"
#include "common/daemon/data_roots.h"
#include "common/daemon/file_access.h"
#include "common/daemon/parse_flags.h"
#include "common/daemon/rpc_server.h"
#include "common/daemon/self_check.h"
#include "common/daemon/tls_flags.h"
#include "common/daemon/utf8_flag.h"
#include "common/examination/examination_loop.h"
#include "common/examination/examiner.h"
#include "common/rpc/announce_address.h"
#include "common/rpc/membership/membership.h"
#include "common/rpc/memory_tuning.h"
#include "common/rpc/retry.h"
#include "common/rpc/rpc_credentials.h"
#include "common/rpc/shutdown_signal.h"
#include "common/trace/send_trace.h"
#include "common/trace/trace_recorder.h"
#include "common/trace/trace_sender.h"
#include "common/transport/shared_memory/shared_segment.h"
#include "common/transport/sockets/host_of.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"
#include "server/measured_host.h"
#include "server/server_metrics.h"
#include "server/shard/service/data_channel_server.h"
#include "server/shard/service/drop_orders.h"
#include "server/shard/service/message_budget.h"
#include "server/shard/service/move_orders.h"
#include "server/shard/service/parameter_service.h"
#include "server/shard/service/partition_source.h"
#include "server/shard/shard_engine.h"
#include "server/shard/storage/rocksdb_store.h"

namespace muster {
namespace {

constexpr char kProgram[] = "muster-server";
// Parts of the 5 seconds that a daemon has to stop.
constexpr absl::Duration kStopTimeout = absl::Seconds(4);
constexpr absl::Duration kLeaveTimeout = absl::Seconds(1);
constexpr absl::Duration kDrainTimeout = absl::Seconds(1);
// Queue of a partition: so large that streams, which hold clients back, reach their bounds first.
constexpr size_t kQueueBytes = size_t{1} << 30;

struct Flags {
  std::string id;
  std::string listen = "0.0.0.0:7071";
  std::string advertise;
  std::string coordinator;
  bool standalone = false;
  std::string data_dir;
  std::vector<std::string> data_roots;
  uint64_t memory_bytes = 0;
  int threads = 0;
  std::string address_file;
  bool end_with_parent = false;
  std::string data_host;
  uint16_t data_port = 0;
  std::string data_advertise;
  size_t shared_memory_bytes = kDefaultArenaBytes;
  FileAccess file_access = FileAccess::kUser;
  TlsFiles tls;
};

void Log(const std::string& line) { DaemonLog(kProgram, line); }

int Fail(const absl::Status& status) {
  Log(std::string(status.message()));
  return EXIT_FAILURE;
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--id", flags.id,
                 "Name of this server in the cluster: unique, and the same at every start. "
                 "Default: the name kept in --data-dir, or else a new one.")
      ->check(Utf8Flag());
  app.add_option("--listen", flags.listen,
                 "HOST:PORT to listen on; port 0 takes a free one. The address is printed on "
                 "standard output once the server listens.")
      ->capture_default_str();
  app.add_option("--advertise", flags.advertise,
                 "HOST:PORT at which tasks reach this server. Default: the address of --listen, "
                 "with the machine's name in place of 0.0.0.0 or [::].")
      ->check(Utf8Flag());
  CLI::Option* coordinator =
      app.add_option("--coordinator", flags.coordinator,
                     "HOST:PORT of muster-coordinator. Without this flag the server runs "
                     "standalone: any client may open tables, and only clients drop them.")
          ->check(Utf8Flag());
  app.add_flag("--standalone", flags.standalone,
               "Run without a coordinator; the same as leaving --coordinator out.")
      ->excludes(coordinator);
  app.add_option(
         "--data-dir", flags.data_dir,
         "Folder for this server's logs and state, for this server alone; created if it does not "
         "exist. Without this flag the server refuses jobs with durability EVERY_PUSH.")
      ->check(Utf8Flag());
  AddDataRootFlag(app, flags.data_roots);
  app.add_option("--memory", flags.memory_bytes,
                 "Most memory that tables may take, such as 4GiB. Default: 3/4 of the memory of "
                 "the machine or of the server's container.")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--threads", flags.threads,
                 "Threads that apply pushes. Default: one per processor.")
      ->check(CLI::PositiveNumber);
  app.add_option("--data-host", flags.data_host,
                 "Host to listen on for data channels. Default: the host of --listen.");
  app.add_option("--data-port", flags.data_port,
                 "Port to listen on for data channels, which carry pushes and pulls over TCP; 0 "
                 "takes a free one. Tasks that cannot reach this port use that of --listen.")
      ->capture_default_str();
  app.add_option("--data-advertise", flags.data_advertise,
                 "Host at which tasks reach the data port. Default: the host at which they reached "
                 "the server.");
  app.add_option("--shared-memory", flags.shared_memory_bytes,
                 "Most memory per direction that a task on the same machine may share with the "
                 "server for pushes and pulls, such as 72MiB; 0: no shared memory.")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--address-file", flags.address_file,
                 "File to write the server's address to once it listens.");
  app.add_flag("--end-with-parent", flags.end_with_parent,
               "Stop, as on SIGTERM, when the process that started this one ends.");
  AddFileAccessFlag(app, flags.file_access);
  AddTlsFlags(app, flags.tls);
}

// Returns what carries out orders to drop tables.
DropOrders::Server Droppable(ShardEngine& engine) {
  DropOrders::Server server;
  server.drop = [&engine](const std::string& job_id, uint64_t generation) {
    v1::DropTablesRequest request;
    request.set_job_id(job_id);
    request.set_generation(generation);
    return engine.DropTables(request);
  };
  server.held_jobs = [&engine] { return engine.HeldJobs(); };
  server.log = [](absl::string_view line) { Log(std::string(line)); };
  return server;
}

// The object that carries out orders to trace.
struct Tracing {
  TraceRecorder recorder;
  // The server's incarnation in the cluster; 0: it is no member now.
  std::atomic<uint64_t> incarnation = 0;
  // Null in a server without a coordinator, which gets no orders.
  std::unique_ptr<TraceSender> sender;
};

// The engine, and the server's id, which its data folder keeps.
struct Engine {
  std::string server_id;
  ShardEngine::Options options;
  // Null: the server keeps nothing.
  std::shared_ptr<const RocksDbStore> store;
  // The engine to call; outlives the calls that wait in it.
  std::unique_ptr<MeasuredHost> host;
  std::unique_ptr<ShardEngine> engine;

  bool healthy() const { return store == nullptr || store->healthy(); }
  std::vector<prometheus::MetricFamily> Metrics() const {
    std::vector<prometheus::MetricFamily> metrics = host->Metrics();
    if (store == nullptr) return metrics;
    for (prometheus::MetricFamily& family : store->Metrics()) metrics.push_back(std::move(family));
    return metrics;
  }
};

// Returns callbacks that make a server with a lease and a writable store ready. A refusal ends the
// daemon, and sets `refused`.
MembershipCallbacks Callbacks(const Engine& engine, RpcServer& server,
                              const ParameterService& service, DropOrders& drops, MoveOrders& moves,
                              Tracing& tracing, ShutdownSignal& shutdown,
                              std::atomic<bool>& refused) {
  MembershipCallbacks callbacks;
  callbacks.report = [&](v1::HeartbeatRequest& request) {
    for (v1::ReplayStatus& replay : engine.engine->Replays()) {
      replay.set_server_id(engine.server_id);
      *request.add_replays() = std::move(replay);
    }
    for (v1::PartitionLoad& load : engine.engine->PartitionLoads()) {
      *request.add_partition_loads() = std::move(load);
    }
    AddServerMetrics(service.Stats(), engine.Metrics(), request);
    drops.Report(request);
    moves.Report(request);
    server.SetReady(engine.healthy());
  };
  callbacks.orders = [&](const v1::HeartbeatReply& orders) {
    engine.engine->TakeEndedSlots(orders);
    drops.TakeOrders(orders);
    moves.TakeOrders(orders);
    tracing.sender->Take(orders.trace());
  };
  callbacks.registered = [&](uint64_t incarnation) {
    Log(absl::StrCat("joined the cluster as incarnation ", incarnation));
    tracing.incarnation = incarnation;
    server.SetReady(engine.healthy());
  };
  callbacks.lease_lost = [&](const absl::Status& status) {
    Log(absl::StrCat("no longer a member, joining again: ", status.message()));
    tracing.incarnation = 0;
    server.SetReady(false);
  };
  callbacks.trouble = [](const absl::Status& status) { Log(std::string(status.message())); };
  callbacks.refused = [&](const absl::Status& status) {
    refused = true;
    shutdown.Trigger(std::string(status.message()));
  };
  return callbacks;
}

absl::StatusOr<Engine> OpenEngine(const Flags& flags, uint64_t process_nonce, const Clock& clock,
                                  CheckpointStorage& checkpoints, TraceRecorder& trace) {
  Engine result;
  result.server_id = flags.id.empty() ? absl::StrFormat("server-%016x", RandomBits()) : flags.id;
  ShardEngine::Options& options = result.options;
  if (!flags.data_dir.empty()) {
    MUSTER_ASSIGN_OR_RETURN(
        std::shared_ptr<RocksDbStore> store,
        RocksDbStore::Create({.data_dir = flags.data_dir, .server_id = flags.id}));
    result.server_id = store->server_id();
    result.store = store;
    options.store = std::move(store);
    options.log_dir = flags.data_dir + "/logs";
  }
  options.trace = &trace;
  options.checkpoint_storage = &checkpoints;
  options.root_check = flags.coordinator.empty() ? RootCheck::kWritable : RootCheck::kMarked;
  options.server_name = absl::StrCat("server ", result.server_id);
  options.process_nonce = process_nonce;
  options.memory_budget_bytes = flags.memory_bytes > 0 ? flags.memory_bytes : DefaultMemoryBytes();
  options.threads = flags.threads > 0 ? flags.threads : UsableProcessors();
  options.queue_bytes = kQueueBytes;
  options.replayed = [](const v1::ReplayStatus& replay) {
    const double megabytes = static_cast<double>(replay.bytes()) / 1e6;
    Log(absl::StrFormat(
        "replayed the logs of %d partitions of job %s: %d records, %.1f MB in %.2f s, %.0f MB/s",
        replay.partitions(), replay.job_id(), replay.records(), megabytes, replay.seconds(),
        replay.seconds() > 0 ? megabytes / replay.seconds() : 0));
  };
  MUSTER_ASSIGN_OR_RETURN(result.engine, ShardEngine::Create(options));
  result.host = std::make_unique<MeasuredHost>(*result.engine, clock);
  return result;
}

// Returns the host on which data channels are listened for.
std::string DataHost(const Flags& flags) {
  return flags.data_host.empty() ? HostOf(flags.listen) : flags.data_host;
}

// Returns what an examination of the cluster measures of this server: the way to it leads to the
// host of its data channels.
ExaminerOptions ExaminedParts(const Flags& flags, const RpcCredentials& credentials,
                              const std::string& advertised) {
  ExaminerOptions options = {.tls = flags.tls, .credentials = credentials};
  options.data_folder = flags.data_dir;
  options.data_roots = flags.data_roots;
  LinkListenerOptions listener = {.host = DataHost(flags)};
  listener.advertised_host =
      flags.data_advertise.empty() ? HostOf(advertised) : flags.data_advertise;
  options.listener = [listener] { return listener; };
  return options;
}

absl::StatusOr<std::unique_ptr<DataChannelServer>> OpenDataChannels(
    const Flags& flags, const RpcCredentials& credentials, std::shared_ptr<MessageBudgets> budgets,
    PartitionHost& host) {
  DataChannelServerOptions options;
  options.budgets = std::move(budgets);
  options.listener.host = DataHost(flags);
  options.listener.port = flags.data_port;
  options.listener.advertised_host = flags.data_advertise;
  options.listener.shared_memory =
      flags.shared_memory_bytes > 0 ? SharedMemory::kOffered : SharedMemory::kNotOffered;
  if (credentials.encrypted()) {
    options.listener.security = ChannelSecurity::kTls;
    options.io.threads = TlsIoThreads();
  }
  options.listener.max_arena_bytes = flags.shared_memory_bytes;
  return DataChannelServer::Create(host, options);
}

// Returns what messages under way may take beside the tables: at least the windows of a dozen
// clients.
int64_t MessageBytes(uint64_t memory_bytes) {
  constexpr uint64_t kLeast = uint64_t{512} << 20;
  return static_cast<int64_t>(std::max(kLeast, memory_bytes / 8));
}

int Run(const Flags& flags) {
  LimitFileAccess(flags.file_access);
  ShutdownSignal shutdown;
  if (flags.end_with_parent) EndWithParent();
  const auto credentials = RpcCredentials::Of(flags.tls, TlsUse::kCallsAndServes);
  if (!credentials.ok()) return Fail(credentials.status());
  auto roots = RootsOfDaemon(flags.listen, flags.data_roots);
  if (!roots.ok()) return Fail(roots.status());
  LocalStorage checkpoints(*std::move(roots));
  const uint64_t process_nonce = RandomBits();
  const RealClock clock;
  Tracing tracing;
  auto opened = OpenEngine(flags, process_nonce, clock, checkpoints, tracing.recorder);
  if (!opened.ok()) return Fail(opened.status());
  PartitionHost& host = *opened->host;
  const int64_t message_bytes = MessageBytes(opened->options.memory_budget_bytes);
  const auto budgets = std::make_shared<MessageBudgets>(message_bytes);
  auto data_channels = OpenDataChannels(flags, *credentials, budgets, host);
  if (!data_channels.ok()) return Fail(data_channels.status());
  std::unique_ptr<ParameterService> service = ParameterService::Create(
      host, {.budgets = budgets, .mover = &opened->engine->mover()}, data_channels->get());

  auto port = RpcPort::Listen(flags.listen, *credentials);
  if (!port.ok()) return Fail(port.status());
  // `received_bytes` bounds what gRPC has received and not handed over.
  auto server = RpcServer::Start(
      *std::move(port), {&service->service()},
      {.ready = flags.coordinator.empty(), .received_bytes = static_cast<size_t>(message_bytes)});
  if (!server.ok()) return Fail(server.status());
  const std::string& listening = (*server)->address();
  const std::string advertised = AdvertisedAddress(flags.advertise, listening);
  if (absl::Status status = AnnounceAddress(kProgram, listening, flags.address_file);
      !status.ok()) {
    return Fail(status);
  }

  RealWaiter waiter;
  DropOrders drops(Droppable(*opened->engine));
  const std::unique_ptr<PartitionSource> partition_source = MakeGrpcPartitionSource(*credentials);
  MoveOrders moves(opened->engine->mover(), *partition_source,
                   [](absl::string_view line) { Log(std::string(line)); });
  std::unique_ptr<ClusterClient> cluster;
  std::unique_ptr<MembershipLoop> membership;
  Examiner examiner(ExaminedParts(flags, *credentials, advertised), checkpoints, clock);
  std::unique_ptr<ExaminationLoop> examination;
  // True if the cluster refuses this process, or nobody can reach it.
  std::atomic<bool> failed = false;
  if (!flags.coordinator.empty()) {
    MembershipOptions options;
    options.daemon = {.kind = DaemonIdentity::Kind::kServer,
                      .id = opened->server_id,
                      .process_nonce = process_nonce,
                      .address = advertised,
                      .memory_bytes = opened->options.memory_budget_bytes};
    cluster = MakeGrpcClusterClient(flags.coordinator, *credentials);
    tracing.sender = std::make_unique<TraceSender>(
        tracing.recorder,
        SendServerTrace(flags.coordinator, *credentials, opened->server_id,
                        [&tracing] { return tracing.incarnation.load(); }),
        TraceSender::Options{.ends = TraceSender::Ends::kWhenTold});
    membership = std::make_unique<MembershipLoop>(
        *cluster, std::move(options), clock, waiter,
        Callbacks(*opened, **server, *service, drops, moves, tracing, shutdown, failed));
    examination = std::make_unique<ExaminationLoop>(
        MakeGrpcExaminationClient(flags.coordinator, *credentials), examiner,
        ExaminationLoopOptions{.id = opened->server_id,
                               .incarnation = [&tracing] { return tracing.incarnation.load(); }});
    drops.SetReportSoon([&membership] { membership->ReportSoon(); });
    moves.SetReportSoon([&membership] { membership->ReportSoon(); });
  }
  SelfCheck self_check({.address = listening}, *credentials, [&](const absl::Status& status) {
    failed = true;
    shutdown.Trigger(std::string(status.message()));
  });
  Log(absl::StrCat("stopping: ", shutdown.Wait()));
  // A restore or a cut cannot be interrupted. A killed server loses nothing it acknowledged.
  ExitWithin(kStopTimeout, failed ? EXIT_FAILURE : EXIT_SUCCESS);
  drops.SetReportSoon(nullptr);
  moves.SetReportSoon(nullptr);
  if (membership != nullptr) membership->Leave(kLeaveTimeout);
  examination.reset();
  service->Shutdown();
  (*server)->Shutdown(kDrainTimeout);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::KeepMessageMemory();
  muster::SkipDeadlockDetection();
  muster::RaiseDescriptorLimit();
  muster::IgnoreFileSignals();
  CLI::App app(
      "Parameter server of a Muster cluster: holds the tables of training jobs, applies the "
      "gradients that tasks push, and serves the parameters that they pull. Stops cleanly on "
      "SIGTERM. Answers gRPC's health and reflection services.",
      muster::kProgram);
  muster::Flags flags;
  muster::AddFlags(app, flags);
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  return muster::Run(flags);
}
