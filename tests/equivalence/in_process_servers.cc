#include "tests/equivalence/in_process_servers.h"

#include <cstddef>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel.h"
#include "common/rpc/parameter_service/data_channel_client.h"
#include "common/rpc/rpc_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "server/shard/service/data_channel_server.h"
#include "server/shard/service/parameter_service.h"
#include "server/shard/storage/memory_store_for_testing.h"
#include "tests/harness/in_process_client.h"

namespace muster {
namespace {

constexpr size_t kTaskMemoryBytes = size_t{64} << 20;

}  // namespace

struct InProcessServers::Served {
  explicit Served(PartitionHost& host) {
    DataChannelServerOptions data;
    data.listener.host = "127.0.0.1";
    channels = DataChannelServer::Create(host, data).value();
    service = ParameterService::Create(host, {}, channels.get());
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service->service());
    server = builder.BuildAndStart();
    address = WithPort("127.0.0.1:0", port);
  }
  ~Served() {
    service->Shutdown();
    server->Shutdown();
  }

  std::unique_ptr<DataChannelServer> channels;
  std::unique_ptr<ParameterService> service;
  std::unique_ptr<grpc::Server> server;
  std::string address;
};

InProcessServers::InProcessServers(int count, CheckpointStorage& storage, Reach reach)
    : count_(count), reach_(reach) {
  for (int s = 0; s < count; ++s) {
    ShardEngine::Options engine;
    engine.checkpoint_storage = &storage;
    engine.store = std::make_shared<MemoryStore>();
    engine.log_dir = absl::StrCat(logs_.path(), "/", s);
    engines_[absl::StrCat(s)] = ShardEngine::Create(engine).value();
  }
  if (reach_ == Reach::kCalls) return;
  io_ = ChannelIo::Create().value();
  for (const auto& [name, engine] : engines_) served_[name] = std::make_unique<Served>(*engine);
}

InProcessServers::~InProcessServers() = default;

std::shared_ptr<RegisteredMemory> InProcessServers::MakeTaskMemory() const {
  if (reach_ == Reach::kCalls) return nullptr;
  return RegisteredMemory::Create(kTaskMemoryBytes).value();
}

v1::ShardMap InProcessServers::Deal(const std::string& job_id, uint64_t generation,
                                    uint32_t partitions) const {
  v1::ShardMap map;
  map.set_job_id(job_id);
  map.set_generation(generation);
  map.set_version(1);
  for (uint32_t p = 0; p < partitions; ++p) {
    v1::PartitionPlacement* placement = map.add_partitions();
    placement->set_partition(p);
    v1::Replica* replica = placement->add_replicas();
    replica->set_address(absl::StrCat(p % count_));
    replica->set_role(v1::Replica::PRIMARY);
    replica->set_term(1);
  }
  return map;
}

ShardRouterDependencies InProcessServers::Routing(const v1::ShardMap& map,
                                                  std::shared_ptr<RegisteredMemory> memory) const {
  ShardRouterDependencies routing;
  routing.make_client = [this, memory](const std::string& name) {
    if (reach_ == Reach::kCalls) return MakeInProcessClient(*engines_.at(name));
    DataChannelClientOptions options;
    options.tcp = DataChannelClientOptions::Tcp::kNotUsed;
    options.registered_memory = memory;
    options.opened = [](const std::string& kind, const std::string& reason) {
      EXPECT_EQ(kind, "shared_memory") << reason;
    };
    return MakeDataChannelClient(served_.at(name)->address, RpcCredentials::PlainText(), io_,
                                 options);
  };
  routing.newest_shard_map = [map]() -> absl::StatusOr<v1::ShardMap> { return map; };
  routing.log = [](absl::string_view) {};
  routing.clock = &clock_;
  routing.waiter = &waiter_;
  return routing;
}

}  // namespace muster
