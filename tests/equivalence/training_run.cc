#include "tests/equivalence/training_run.h"

#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
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
                   Strategy& strategy, CoordinatorClient& coordinator) {
  RealClock clock;
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

// The engines of a run and the way to them.
class Servers {
 public:
  explicit Servers(int count) : count_(count) {
    for (int s = 0; s < count; ++s) {
      ShardEngine::Options engine;
      engine.checkpoint_storage = &storage_;
      engines_[absl::StrCat(s)] = ShardEngine::Create(engine).value();
    }
  }

  std::unique_ptr<ParameterServerStrategy> MakeStrategy(const v1::JobSpec& spec,
                                                        const PreparedJob& job, uint32_t slot,
                                                        uint64_t incarnation) const {
    v1::TaskOrder order;
    order.set_job_id(kJob);
    *order.mutable_spec() = spec;
    order.set_generation(1);
    order.set_slot(slot);
    order.set_incarnation(incarnation);
    *order.mutable_shard_map() = DealPartitions(job.schema->partitions(), count_);
    order.set_checkpoint_root(checkpoints_.path());
    ShardRouterDependencies routing;
    routing.make_client = [this](const std::string& address) {
      return MakeInProcessClient(*engines_.at(address));
    };
    routing.newest_shard_map = [map = order.shard_map()]() -> absl::StatusOr<v1::ShardMap> {
      return map;
    };
    routing.log = [](absl::string_view) {};
    routing.clock = &clock_;
    routing.waiter = &waiter_;
    return ParameterServerStrategy::Create(order, *job.schema, {}, std::move(routing)).value();
  }

 private:
  const int count_;
  const TestFolder checkpoints_;
  const RealClock clock_;
  mutable RealWaiter waiter_;
  LocalStorage storage_;
  std::map<std::string, std::unique_ptr<ShardEngine>> engines_;
};

// Passes hooks on until its task is to die.
class DyingStrategy final : public Strategy {
 public:
  DyingStrategy(Strategy& inner, const Death& death) : inner_(inner), death_(death) {}

  absl::StatusOr<uint64_t> Start() override { return inner_.Start(); }
  absl::Status BeginStep(uint64_t clock) override {
    return Live([&] { return inner_.BeginStep(clock); });
  }
  absl::Status BeforeForward(int unit) override {
    return Live([&] { return inner_.BeforeForward(unit); });
  }
  absl::Status Prefetch(const MicroBatch& batch) override {
    return Live([&] { return inner_.Prefetch(batch); });
  }
  absl::Status LookUp(MicroBatch& batch) override {
    return Live([&] { return inner_.LookUp(batch); });
  }
  absl::Status BeforeBackward(uint64_t examples) override {
    return Live([&] { return inner_.BeforeBackward(examples); });
  }
  absl::Status GradientReady(int unit) override {
    return Live([&] { return inner_.GradientReady(unit); });
  }
  absl::Status PushRows(const MicroBatch& batch) override {
    return Live([&] { return inner_.PushRows(batch); });
  }
  absl::Status EndStep() override {
    return Live([&] { return inner_.EndStep(); });
  }
  absl::StatusOr<std::vector<CutPiece>> Cut(uint64_t clock) override { return inner_.Cut(clock); }
  ParameterSpans parameters() const override { return inner_.parameters(); }
  GradientSpans gradients() const override { return inner_.gradients(); }
  StrategyCounters counters() const override { return inner_.counters(); }

 private:
  template <typename Hook>
  absl::Status Live(const Hook& hook) {
    if (++calls_ < death_.hooks) return hook();
    if (death_.takes_effect) hook().IgnoreError();
    return absl::InternalError("the task dies here");
  }

  Strategy& inner_;
  const Death death_;
  int calls_ = 0;
};

}  // namespace

TrainedValues TrainLocally(v1::JobSpec spec) {
  spec.set_workers(1);
  absl::StatusOr<PreparedJob> job = PrepareJob(spec);
  EXPECT_EQ(job.status(), absl::OkStatus());
  if (!job.ok()) return {};
  std::unique_ptr<LocalStrategy> strategy = LocalStrategy::Create(*job->schema).value();
  FakeCoordinatorClient coordinator;
  EXPECT_EQ(Train(spec, 0, *job, *strategy, coordinator), absl::OkStatus());
  std::map<std::string, std::vector<uint64_t>> keys;
  const auto& tables = job->model->description().sparse_tables;
  for (size_t t = 0; t < tables.size(); ++t) keys[tables[t].name] = strategy->Keys(t);
  return ReadValues(*job, job->total_steps, *strategy, keys);
}

ServerRun TrainOnServers(const v1::JobSpec& spec, const ServerRunOptions& options) {
  absl::StatusOr<PreparedJob> job = PrepareJob(spec);
  EXPECT_EQ(job.status(), absl::OkStatus());
  if (!job.ok()) return {};
  const Servers servers(options.servers);
  ServerRun run;
  run.counters.resize(spec.workers());
  absl::Mutex mutex;
  std::vector<std::thread> slots;
  for (uint32_t slot = 0; slot < spec.workers(); ++slot) {
    slots.emplace_back([&, slot] {
      // Tasks that die, one after the other, and the one that does not.
      uint64_t incarnation = 1;
      for (const Death& death : options.deaths) {
        if (death.slot != slot) continue;
        auto strategy = servers.MakeStrategy(spec, *job, slot, incarnation++);
        DyingStrategy dying(*strategy, death);
        FakeCoordinatorClient coordinator;
        EXPECT_EQ(Train(spec, slot, *job, dying, coordinator).code(), absl::StatusCode::kInternal)
            << "the job was over before the task was to die";
      }
      auto strategy = servers.MakeStrategy(spec, *job, slot, incarnation);
      FakeCoordinatorClient coordinator;
      EXPECT_EQ(Train(spec, slot, *job, *strategy, coordinator), absl::OkStatus());
      TrainedValues trained = ReadValues(*job, job->total_steps, *strategy, options.keys);
      absl::MutexLock lock(&mutex);
      run.counters[slot] = strategy->counters();
      if (slot == 0) run.trained = std::move(trained);
      if (!coordinator.evaluations().empty()) {
        run.evaluated += coordinator.evaluations().back().examples();
        run.correct += coordinator.evaluations().back().correct();
      }
    });
  }
  for (std::thread& slot : slots) slot.join();
  return run;
}

}  // namespace muster
