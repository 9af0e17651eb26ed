#include "tests/benchmarks/parameter_server/bench_server.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/local_storage.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/service/data_channel_server.h"
#include "server/shard/service/message_budget.h"
#include "server/shard/service/parameter_service.h"
#include "server/shard/shard_engine.h"
#include "server/shard/storage/rocksdb_store.h"

namespace muster {
namespace {

// The engine, but for the job of the empty handler.
class BenchHost final : public PartitionHost {
 public:
  explicit BenchHost(std::unique_ptr<ShardEngine> engine) : engine_(std::move(engine)) {}

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request) override {
    if (request.job_id() != kEmptyHandlerJob) return engine_->OpenTables(request);
    const uint64_t bytes = 4 * request.schema().tensors(0).shape(0);
    block_bytes_ = std::min(request.schema().block_bytes(), bytes);
    parameters_ = Payload::Of(std::vector<float>(bytes / sizeof(float)));
    return v1::OpenTablesReply();
  }

  absl::StatusOr<v1::EndGenerationReply> EndGeneration(
      const v1::EndGenerationRequest& request) override {
    return engine_->EndGeneration(request);
  }

  absl::Status DropTables(const v1::DropTablesRequest& request) override {
    return request.job_id() == kEmptyHandlerJob ? absl::OkStatus() : engine_->DropTables(request);
  }

  void Execute(ExchangeCall call) override {
    if (call.request->job_id() != kEmptyHandlerJob) return engine_->Execute(std::move(call));
    Payload answer;
    if (call.request->has_dense_pull()) {
      answer = parameters_.Slice(0, call.request->dense_pull().blocks() * block_bytes_);
    }
    call.done({}, std::move(answer));
  }

  v1::GetServerStatsReply Stats() const override { return engine_->Stats(); }

 private:
  const std::unique_ptr<ShardEngine> engine_;
  // Set by OpenTables, which nothing runs beside.
  uint64_t block_bytes_ = 0;
  Payload parameters_;
};

}  // namespace

int RunBenchServer(const std::string& data_dir, ChannelSecurity security) {
  LocalStorage checkpoints;
  ShardEngine::Options options;
  options.checkpoint_storage = &checkpoints;
  if (!data_dir.empty()) {
    auto store = RocksDbStore::Create({.data_dir = data_dir, .server_id = "bench"});
    if (!store.ok()) {
      std::cerr << store.status() << "\n";
      return EXIT_FAILURE;
    }
    options.store = *std::move(store);
    options.log_dir = data_dir + "/logs";
  }
  auto engine = ShardEngine::Create(options);
  if (!engine.ok()) {
    std::cerr << engine.status() << "\n";
    return EXIT_FAILURE;
  }
  BenchHost host(*std::move(engine));
  DataChannelServerOptions channel_options;
  channel_options.listener.host = "127.0.0.1";
  channel_options.listener.security = security;
  // A daemon with 32 GiB has as much: the benchmark asks for more at once than a worker does.
  channel_options.budgets = std::make_shared<MessageBudgets>(int64_t{4} << 30);
  auto data_channels = DataChannelServer::Create(host, channel_options);
  if (!data_channels.ok()) {
    std::cerr << data_channels.status() << "\n";
    return EXIT_FAILURE;
  }
  auto service =
      ParameterService::Create(host, {.budgets = channel_options.budgets}, data_channels->get());
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", RpcCredentials::PlainText().server(), &port);
  builder.RegisterService(&service->service());
  auto server = builder.BuildAndStart();
  std::cout << WithPort("127.0.0.1:0", port) << std::endl;
  while (std::getchar() != EOF) {
  }
  service->Shutdown();
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  return EXIT_SUCCESS;
}

}  // namespace muster
