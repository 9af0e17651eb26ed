#include "tests/equivalence/training_run.h"

#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/checkpoint/local_storage.h"
#include "common/rpc/retry.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "server/shard/shard_engine.h"
#include "tests/harness/in_process_client.h"
#include "tests/harness/test_folder.h"
#include "worker/runtime/fake_coordinator_client.h"
#include "worker/runtime/prepared_job.h"
#include "worker/runtime/trainer.h"
#include "worker/strategy/local_strategy.h"
#include "worker/strategy/parameter_server_strategy.h"

namespace muster {
namespace {

constexpr char kJob[] = "job-1";

// Reads everything through the strategy, as a step at `clock` would.
TrainedValues ReadValues(const PreparedJob& job, uint64_t clock, Strategy& strategy,
                         const std::map<std::string, std::vector<uint64_t>>& keys) {
  const ModelDescription& model = job.model->description();
  TrainedValues result;
  EXPECT_EQ(strategy.BeginStep(clock), absl::OkStatus());
  for (int unit = 0; unit < model.units; ++unit) {
    EXPECT_EQ(strategy.BeforeForward(unit), absl::OkStatus());
  }
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    absl::Span<const float> values = strategy.parameters()[i];
    result.values[model.tensors[i].name].assign(values.begin(), values.end());
  }
  MicroBatch rows;
  rows.sparse.resize(model.sparse_tables.size());
  for (size_t t = 0; t < model.sparse_tables.size(); ++t) {
    auto it = keys.find(model.sparse_tables[t].name);
    if (it != keys.end()) rows.sparse[t].keys = it->second;
  }
  EXPECT_EQ(strategy.Prefetch(rows), absl::OkStatus());
  EXPECT_EQ(strategy.LookUp(rows), absl::OkStatus());
  for (size_t t = 0; t < model.sparse_tables.size(); ++t) {
    const std::string& name = model.sparse_tables[t].name;
    if (rows.sparse[t].keys.empty()) continue;
    result.values[name] = rows.sparse[t].rows;
    result.keys[name] = rows.sparse[t].keys;
  }
  return result;
}

absl::Status Train(const v1::JobSpec& spec, uint32_t slot, const PreparedJob& job,
                   Strategy& strategy) {
  RealClock clock;
  FakeCoordinatorClient coordinator;
  TrainerOptions options;
  options.slot = slot;
  absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      Trainer::Create(spec, options, job, strategy, coordinator, clock);
  if (!trainer.ok()) return trainer.status();
  return (*trainer)->Run();
}

v1::ShardMap DealPartitions(uint32_t partitions, int servers) {
  v1::ShardMap map;
  map.set_job_id(kJob);
  map.set_generation(1);
  map.set_version(1);
  for (uint32_t p = 0; p < partitions; ++p) {
    v1::PartitionPlacement* placement = map.add_partitions();
    placement->set_partition(p);
    v1::Replica* replica = placement->add_replicas();
    replica->set_address(absl::StrCat(p % servers));
    replica->set_role(v1::Replica::PRIMARY);
    replica->set_term(1);
  }
  return map;
}

}  // namespace

TrainedValues TrainLocally(v1::JobSpec spec) {
  spec.set_workers(1);
  absl::StatusOr<PreparedJob> job = PrepareJob(spec);
  EXPECT_EQ(job.status(), absl::OkStatus());
  if (!job.ok()) return {};
  std::unique_ptr<LocalStrategy> strategy = LocalStrategy::Create(*job->schema).value();
  EXPECT_EQ(Train(spec, 0, *job, *strategy), absl::OkStatus());
  std::map<std::string, std::vector<uint64_t>> keys;
  const auto& tables = job->model->description().sparse_tables;
  for (size_t t = 0; t < tables.size(); ++t) keys[tables[t].name] = strategy->Keys(t);
  return ReadValues(*job, job->total_steps, *strategy, keys);
}

TrainedValues TrainOnServers(const v1::JobSpec& spec, const ServerRunOptions& options) {
  absl::StatusOr<PreparedJob> job = PrepareJob(spec);
  EXPECT_EQ(job.status(), absl::OkStatus());
  if (!job.ok()) return {};
  const TestFolder checkpoints;
  LocalStorage storage;
  std::map<std::string, std::unique_ptr<ShardEngine>> engines;
  for (int s = 0; s < options.servers; ++s) {
    ShardEngine::Options engine;
    engine.checkpoint_storage = &storage;
    engines[absl::StrCat(s)] = ShardEngine::Create(engine).value();
  }
  RealClock clock;
  RealWaiter waiter;
  std::vector<TrainedValues> results(spec.workers());
  std::vector<std::thread> slots;
  for (uint32_t slot = 0; slot < spec.workers(); ++slot) {
    slots.emplace_back([&, slot] {
      v1::TaskOrder order;
      order.set_job_id(kJob);
      *order.mutable_spec() = spec;
      order.set_generation(1);
      order.set_slot(slot);
      order.set_incarnation(1);
      *order.mutable_shard_map() = DealPartitions(job->schema->partitions(), options.servers);
      order.set_checkpoint_root(checkpoints.path());
      ShardRouterDependencies routing;
      routing.make_client = [&](const std::string& address) {
        return MakeInProcessClient(*engines.at(address));
      };
      routing.newest_shard_map = [&]() -> absl::StatusOr<v1::ShardMap> {
        return order.shard_map();
      };
      routing.log = [](absl::string_view) {};
      routing.clock = &clock;
      routing.waiter = &waiter;
      absl::StatusOr<std::unique_ptr<ParameterServerStrategy>> strategy =
          ParameterServerStrategy::Create(order, *job->schema, {}, std::move(routing));
      ASSERT_EQ(strategy.status(), absl::OkStatus());
      ASSERT_EQ(Train(spec, slot, *job, **strategy), absl::OkStatus());
      results[slot] = ReadValues(*job, job->total_steps, **strategy, options.keys);
    });
  }
  for (std::thread& slot : slots) slot.join();
  return results[0];
}

}  // namespace muster
