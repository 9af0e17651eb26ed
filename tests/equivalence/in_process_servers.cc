#include "tests/equivalence/in_process_servers.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "server/shard/storage/memory_store.h"
#include "tests/harness/in_process_client.h"

namespace muster {

InProcessServers::InProcessServers(int count, CheckpointStorage& storage) : count_(count) {
  for (int s = 0; s < count; ++s) {
    ShardEngine::Options engine;
    engine.checkpoint_storage = &storage;
    engine.store = std::make_shared<MemoryStore>();
    engine.log_dir = absl::StrCat(logs_.path(), "/", s);
    engines_[absl::StrCat(s)] = ShardEngine::Create(engine).value();
  }
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

ShardRouterDependencies InProcessServers::Routing(const v1::ShardMap& map) const {
  ShardRouterDependencies routing;
  routing.make_client = [this](const std::string& address) {
    return MakeInProcessClient(*engines_.at(address));
  };
  routing.newest_shard_map = [map]() -> absl::StatusOr<v1::ShardMap> { return map; };
  routing.log = [](absl::string_view) {};
  routing.clock = &clock_;
  routing.waiter = &waiter_;
  return routing;
}

}  // namespace muster
