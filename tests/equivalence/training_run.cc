#include "tests/equivalence/training_run.h"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/mesh/mesh.h"
#include "common/mesh/rank_shards.h"
#include "common/mesh/tensor_ranks.h"
#include "common/mesh/zero.h"
#include "common/partition/local_tensors.h"
#include "common/partition/schema.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "tests/equivalence/meeting.h"
#include "tests/equivalence/poisoning_strategy.h"
#include "tests/equivalence/watching_strategy.h"
#include "worker/nn/loss_scaling.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/rank_engine.h"
#include "worker/runtime/training/step_executor.h"
#include "worker/runtime/training/trainer.h"
#include "worker/strategy/group/served_group.h"
#include "worker/strategy/group/sharded_strategy.h"
#include "worker/strategy/local_strategy.h"
#include "worker/strategy/servers/parameter_server_strategy.h"

namespace muster {
namespace {

constexpr char kJob[] = "job-1";
constexpr uint64_t kGeneration = 1;

// ‖a − b‖₂ / ‖b‖₂.
double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

// Reads all that a slot has through the strategy, as a step at `clock` would. `tensors` are the
// slot's.
TrainedValues ReadValues(const PreparedJob& job, absl::Span<const TensorSpec> tensors,
                         uint64_t clock, Strategy& strategy,
                         const std::map<std::string, std::vector<uint64_t>>& keys) {
  const ModelDescription& model = job.model->description();
  TrainedValues result;
  EXPECT_EQ(strategy.BeginStep(clock), absl::OkStatus());
  for (int unit = 0; unit < model.units; ++unit) {
    EXPECT_EQ(strategy.Acquire(unit, Direction::kForward), absl::OkStatus());
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (static_cast<int>(tensors[i].unit) != unit) continue;
      const absl::Span<const float> values = strategy.parameters().values[i];
      result.values[tensors[i].name].assign(values.begin(), values.end());
    }
    strategy.Release(unit, Direction::kForward);
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

// Sums and weights of evaluations, by clock.
using LossSums = std::map<uint64_t, std::pair<double, double>>;

void AddEvaluations(const FakeCoordinatorClient& coordinator, LossSums& sums) {
  for (const v1::ReportEvaluationRequest& report : coordinator.evaluations()) {
    sums[report.clock()].first += report.loss_sum();
    sums[report.clock()].second += static_cast<double>(report.loss_weight());
  }
}

LossCurve Means(const LossSums& sums) {
  LossCurve curve;
  for (const auto& entry : sums) curve[entry.first] = entry.second.first / entry.second.second;
  return curve;
}

// A slot's strategy, and the ranks that compute the model together with this one.
struct RankStrategy {
  Strategy& strategy;
  ModelPeers peers;
};

// Returns how slots divide the model's tensors.
RankShards RanksOf(const v1::JobSpec& spec, const PreparedJob& job) {
  const ModelDivision division = DivisionOf(*job.schema, static_cast<int>(TensorRanks(spec)));
  return {division.ranks(), division.stages};
}

// Returns what the slot has of the model's tensors.
std::vector<TensorSpec> TensorsOf(const v1::JobSpec& spec, uint32_t slot, const PreparedJob& job) {
  return LocalTensors(
             job.model->description().tensors,
             DivisionOf(*job.schema, static_cast<int>(TensorRanks(spec))),
             RanksOf(spec, job).Of(static_cast<int>(slot), static_cast<int>(spec.workers())))
      .value();
}

// Makes the slot's engine. Of jobs without a pipeline the steps have the run's plan.
absl::StatusOr<std::unique_ptr<StepEngine>> MakeEngine(const v1::JobSpec& spec,
                                                       const RunOptions& run,
                                                       const PreparedJob& job, Strategy& strategy,
                                                       const ModelPeers& peers) {
  if (peers.pipeline_group != nullptr) return MakeRankEngine(spec, job, strategy, peers);
  return std::make_unique<StepExecutor>(
      spec, *job.model, strategy,
      StepExecutor::Options{.make_plan = run.plan, .tensor_group = peers.tensor_group});
}

absl::Status Train(const v1::JobSpec& spec, uint32_t slot, const RunOptions& run,
                   const PreparedJob& job, const RankStrategy& strategy,
                   CoordinatorClient& coordinator, std::function<void(absl::string_view)> log) {
  RealClock clock;
  TrainerOptions options;
  options.slot = slot;
  options.mesh = Mesh::FromSpec(spec.parallelism(), static_cast<int>(spec.workers())).value();
  options.rank = static_cast<int>(slot);
  if (run.from > 0) options.checkpoint_clock = run.from;
  options.log = std::move(log);
  StepObserver unobserved;
  StepObserver& observer = run.observer == nullptr ? unobserved : *run.observer;
  ObservedStrategy observed(strategy.strategy, slot, observer);
  const std::vector<TensorSpec> tensors = TensorsOf(spec, slot, job);
  WatchingStrategy watching(observed, tensors);
  PoisoningStrategy poisoning(watching, tensors, MakeHostMemory(),
                              strategy.peers.pipeline_group == nullptr
                                  ? PoisoningStrategy::Passes::kOneAfterAnother
                                  : PoisoningStrategy::Passes::kAlternate);
  const absl::StatusOr<std::unique_ptr<StepEngine>> engine =
      MakeEngine(spec, run, job, poisoning, strategy.peers);
  if (!engine.ok()) return engine.status();
  ObservedEngine observed_engine(**engine, slot, observer);
  absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      Trainer::Create(spec, options, job, {poisoning, observed_engine}, coordinator, clock);
  if (!trainer.ok()) return trainer.status();
  return (*trainer)->Run();
}

// What the slots of one run share.
class RunWorld {
 public:
  RunWorld(const v1::JobSpec& spec, const RunOptions& options, PreparedJob job)
      : spec_(spec),
        options_(options),
        job_(std::move(job)),
        checkpoints_(options.checkpoints == nullptr ? own_checkpoints_ : *options.checkpoints),
        servers_(options.servers, checkpoints_.storage(), options.reach) {
    losses_.resize(spec.workers());
    run_.trained.resize(spec.workers());
    run_.counters.resize(spec.workers());
    run_.calls.resize(spec.workers());
    run_.collectives.resize(spec.workers());
  }

  // Runs a function for each slot, on a thread of its own.
  RunResult ForEachSlot(const std::function<void(uint32_t slot)>& body) {
    std::vector<std::thread> slots;
    for (uint32_t slot = 0; slot < spec_.workers(); ++slot) slots.emplace_back(body, slot);
    for (std::thread& slot : slots) slot.join();
    absl::MutexLock lock(&mutex_);
    // Sums are added in order of slot, so that equal runs have equal bits.
    LossSums sums;
    for (const LossSums& slot : losses_) {
      for (const auto& [clock, sum] : slot) {
        sums[clock].first += sum.first;
        sums[clock].second += sum.second;
      }
    }
    run_.curve = Means(sums);
    return run_;
  }

  v1::TaskOrder Order(uint32_t slot, uint64_t incarnation) const {
    v1::TaskOrder order;
    order.set_job_id(kJob);
    *order.mutable_spec() = spec_;
    order.set_generation(kGeneration);
    order.set_slot(slot);
    order.set_incarnation(incarnation);
    *order.mutable_shard_map() = servers_.Deal(kJob, kGeneration, job_.schema->partitions());
    order.set_checkpoint_root(checkpoints_.root());
    if (options_.from > 0) {
      order.set_restore_uri(checkpoints_.At(options_.from));
      order.set_start_clock(options_.from);
    }
    return order;
  }

  std::unique_ptr<ParameterServerStrategy> OnServers(
      uint32_t slot, uint64_t incarnation, ParameterServerStrategy::Options options = {}) {
    const v1::TaskOrder order = Order(slot, incarnation);
    options.checkpoints = &checkpoints_.storage();
    options.registered_memory = servers_.MakeTaskMemory();
    ShardRouterDependencies routing =
        servers_.Routing(order.shard_map(), options.registered_memory);
    routing.log = [this](absl::string_view line) { Log(line); };
    return ParameterServerStrategy::Create(order, *job_.schema, options, std::move(routing))
        .value();
  }

  std::unique_ptr<ServedGroup> OnServersWithPeers(uint32_t slot, const v1::TaskOrder& order) {
    ServedGroup::Options options;
    options.servers.checkpoints = &checkpoints_.storage();
    ShardRouterDependencies routing = servers_.Routing(order.shard_map(), nullptr);
    routing.log = [this](absl::string_view line) { Log(line); };
    return std::make_unique<ServedGroup>(order, *job_.schema, options, std::move(routing));
  }

  std::unique_ptr<ShardedStrategy> ByAllReduce(uint32_t slot, uint64_t incarnation) {
    const v1::TaskOrder order = Order(slot, incarnation);
    ShardedDependencies dependencies;
    dependencies.storage = &checkpoints_.storage();
    dependencies.clock = &clock_;
    dependencies.offload_folder = checkpoints_.root();
    dependencies.log = [this](absl::string_view line) { Log(line); };
    dependencies.routing = servers_.Routing(order.shard_map(), nullptr);
    return ShardedStrategy::Create(order, *job_.schema, {}, std::move(dependencies)).value();
  }

  absl::Status Train(uint32_t slot, const RankStrategy& strategy,
                     FakeCoordinatorClient& coordinator) {
    return muster::Train(spec_, slot, options_, job_, strategy, coordinator,
                         [this](absl::string_view line) { Log(line); });
  }

  void Log(absl::string_view line) {
    absl::MutexLock lock(&mutex_);
    run_.log.emplace_back(line);
  }

  // The slot's last task has trained to the end; `reader` holds the values, all of them as f32.
  void Finish(uint32_t slot, const DyingStrategy& strategy, Strategy& reader,
              const FakeCoordinatorClient& coordinator) {
    NoteRun(slot, strategy, coordinator);
    ReadTrained(slot, reader);
  }

  void ReadTrained(uint32_t slot, Strategy& reader) {
    TrainedValues trained =
        ReadValues(job_, TensorsOf(spec_, slot, job_), job_.total_steps, reader, options_.keys);
    absl::MutexLock lock(&mutex_);
    run_.trained[slot] = std::move(trained);
  }

  std::vector<TrainedValues> trained() {
    absl::MutexLock lock(&mutex_);
    return run_.trained;
  }

  // Keeps what the slot's last task came to, beside the values.
  void NoteRun(uint32_t slot, const DyingStrategy& strategy,
               const FakeCoordinatorClient& coordinator) {
    if (slot == 0) {
      for (const v1::CommitCheckpointRequest& request : coordinator.checkpoints()) {
        checkpoints_.Commit(kJob, kGeneration, request);
      }
    }
    absl::MutexLock lock(&mutex_);
    run_.counters[slot] = strategy.counters();
    run_.calls[slot] = strategy.calls();
    AddEvaluations(coordinator, losses_[slot]);
    if (!coordinator.evaluations().empty()) {
      run_.evaluated += coordinator.evaluations().back().examples();
      run_.correct += coordinator.evaluations().back().correct();
    }
  }

  // Keeps the slot's collective calls, and writes what its state has of the dense weights into
  // those of its group, whose ranks have all of them together.
  void AddRank(uint32_t slot, const ShardedStrategy& strategy) {
    const ShardState& state = strategy.shard_state();
    absl::MutexLock lock(&mutex_);
    for (const RecordedCall& call : strategy.communicator()->recorder().Calls()) {
      run_.collectives[slot].push_back(call.label);
    }
    std::map<std::string, std::vector<float>>& values = groups_[ReplicaOf(slot)];
    for (const TensorSpec& tensor : job_.model->description().tensors) {
      if (tensor.tied_to.empty()) values[tensor.name].resize(tensor.elements());
    }
    for (const ShardLayout::OwnedBlock& owned : state.owned_blocks()) {
      absl::Span<const float> weights = state.weights(owned);
      for (const DenseLayout::Piece& piece : owned.block.pieces) {
        const TensorSpec& tensor = state.tables().tensors[piece.tensor];
        std::vector<float>& whole = values[tensor.name];
        ForEachGlobal(tensor, piece.begin, piece.end, [&](uint64_t, uint64_t global, uint64_t n) {
          std::copy_n(weights.begin(), n, whole.begin() + global);
          weights.remove_prefix(n);
        });
      }
    }
  }

  // Expects that the slot reads what its group's ranks, now done, have. Gives it whole tensors, and
  // the f32 values that it reads only rounded.
  void TakeFromShards(uint32_t slot) {
    absl::MutexLock lock(&mutex_);
    const std::vector<TensorSpec>& whole = job_.model->description().tensors;
    const std::vector<TensorSpec> shares = TensorsOf(spec_, slot, job_);
    for (size_t i = 0; i < shares.size(); ++i) {
      const TensorSpec& tensor = shares[i];
      const std::string& owner = whole[i].tied_to.empty() ? whole[i].name : whole[i].tied_to;
      const std::vector<float>& held = groups_[ReplicaOf(slot)][owner];
      std::vector<float>& values = run_.trained[slot].values[tensor.name];
      std::vector<float> share;
      ForEachGlobal(tensor, 0, tensor.elements(), [&](uint64_t, uint64_t global, uint64_t n) {
        share.insert(share.end(), held.begin() + global, held.begin() + global + n);
      });
      if (!values.empty()) EXPECT_EQ(values, share) << "slot " << slot << ", " << tensor.name;
      values = held;
    }
  }

  // Gives each slot whole tensors, of which it has read its shares.
  void JoinShares() {
    absl::MutexLock lock(&mutex_);
    // By data rank.
    std::map<int, std::map<std::string, std::vector<float>>> whole;
    const RankShards ranks = RanksOf(spec_, job_);
    const int slots = static_cast<int>(spec_.workers());
    for (int slot = 0; slot < slots; ++slot) {
      std::map<std::string, std::vector<float>>& values = whole[ranks.ReplicaOf(slot, slots)];
      for (const TensorSpec& tensor : TensorsOf(spec_, slot, job_)) {
        const std::vector<float>& share = run_.trained[slot].values[tensor.name];
        EXPECT_EQ(static_cast<int64_t>(share.size()), tensor.elements()) << tensor.name;
        uint64_t elements = 1;
        for (const int64_t extent : GlobalShape(tensor)) elements *= extent;
        values[tensor.name].resize(elements);
        ForEachGlobal(tensor, 0, share.size(), [&](uint64_t at, uint64_t global, uint64_t n) {
          std::copy_n(share.begin() + at, n, values[tensor.name].begin() + global);
        });
      }
    }
    for (int slot = 0; slot < slots; ++slot) {
      run_.trained[slot].values = whole[ranks.ReplicaOf(slot, slots)];
    }
  }

  // The slot's tasks that are to die, in their order.
  std::vector<Death> Deaths(uint32_t slot) const {
    std::vector<Death> deaths;
    for (const Death& death : options_.deaths) {
      if (death.slot == slot) deaths.push_back(death);
    }
    return deaths;
  }

 private:
  // Returns the number of the group of ranks with all weights that the slot is in.
  int ReplicaOf(uint32_t slot) const {
    const int ranks = static_cast<int>(spec_.workers());
    return ShardsOfRanks(spec_, spec_.workers()).ReplicaOf(static_cast<int>(slot), ranks);
  }

  const v1::JobSpec spec_;
  const RunOptions options_;
  const PreparedJob job_;
  const RealClock clock_;
  RunCheckpoints own_checkpoints_;
  RunCheckpoints& checkpoints_;
  const InProcessServers servers_;
  absl::Mutex mutex_;
  RunResult run_ ABSL_GUARDED_BY(mutex_);
  // The dense weights, by group of ranks that have all of them together.
  std::map<int, std::map<std::string, std::vector<float>>> groups_ ABSL_GUARDED_BY(mutex_);
  // The losses, by slot.
  std::vector<LossSums> losses_ ABSL_GUARDED_BY(mutex_);
};

// One task of a slot that trains by all-reduce: meets the others as often as it takes. Returns OK
// at the end of the training, and Internal when it has died. `dying` is a form of `strategy`.
absl::Status TrainInRounds(uint32_t slot, ShardedStrategy& strategy, DyingStrategy& dying,
                           Meeting& meeting, RunWorld& world, FakeCoordinatorClient& coordinator) {
  while (true) {
    strategy.Leave();
    Meeting::Place place = meeting.Arrive(slot, strategy.replica_clock());
    absl::Status status = strategy.Join(std::move(place.communicator), place.source);
    if (status.ok()) {
      status = world.Train(
          slot,
          {dying,
           {.tensor_group = strategy.tensor_group(), .pipeline_group = strategy.pipeline_group()}},
          coordinator);
    }
    if (dying.died()) {
      meeting.Kill(slot);
      return absl::InternalError("died");
    }
    if (!absl::IsUnavailable(status) && !absl::IsAborted(status)) return status;
  }
}

// The groups of slots' tasks on servers, of which each may end the others' waits.
class ServedGroups {
 public:
  void Add(ServedGroup& group) {
    absl::MutexLock lock(&mutex_);
    groups_.push_back(&group);
  }
  void Remove(ServedGroup& group) {
    absl::MutexLock lock(&mutex_);
    groups_.erase(std::find(groups_.begin(), groups_.end(), &group));
  }
  // As the coordinator tells the others of a round that one has left.
  void EndRound() {
    absl::MutexLock lock(&mutex_);
    for (ServedGroup* const group : groups_) group->EndWaits("the round is over");
  }

 private:
  absl::Mutex mutex_;
  std::vector<ServedGroup*> groups_ ABSL_GUARDED_BY(mutex_);
};

// One task of a slot on servers that several ranks compute together, as TrainInRounds. The hooks of
// a task that is to die count from the beginning of its round.
absl::Status TrainServedInRounds(uint32_t slot, ServedGroup& group,
                                 const absl::optional<Death>& death, ServedGroups& groups,
                                 Meeting& meeting, RunWorld& world) {
  groups.Add(group);
  const absl::Cleanup remove = [&] { groups.Remove(group); };
  while (true) {
    group.Leave();
    Meeting::Place place = meeting.Arrive(slot, group.replica_clock());
    FakeCoordinatorClient coordinator;
    absl::Status status = group.Join(std::move(place.communicator), place.source);
    if (status.ok()) {
      DyingStrategy dying(group.strategy(), death);
      status = world.Train(
          slot,
          {dying, {.tensor_group = group.tensor_group(), .pipeline_group = group.pipeline_group()}},
          coordinator);
      if (dying.died()) {
        meeting.Kill(slot);
        groups.EndRound();
        return absl::InternalError("died");
      }
      if (status.ok()) world.NoteRun(slot, dying, coordinator);
    }
    if (!absl::IsUnavailable(status) && !absl::IsAborted(status)) return status;
    groups.EndRound();
  }
}

// Trains the job on servers, where several ranks compute the model.
RunResult TrainServedRanks(const v1::JobSpec& spec, const RunOptions& options, PreparedJob job) {
  Meeting meeting(static_cast<int>(spec.workers()), {});
  RunWorld world(spec, options, std::move(job));
  ServedGroups groups;
  world.ForEachSlot([&](uint32_t slot) {
    uint64_t incarnation = 1;
    for (const Death& death : world.Deaths(slot)) {
      const v1::TaskOrder order = world.Order(slot, incarnation++);
      const auto group = world.OnServersWithPeers(slot, order);
      EXPECT_EQ(TrainServedInRounds(slot, *group, death, groups, meeting, world).message(), "died");
    }
    const v1::TaskOrder order = world.Order(slot, incarnation);
    const auto group = world.OnServersWithPeers(slot, order);
    EXPECT_EQ(TrainServedInRounds(slot, *group, absl::nullopt, groups, meeting, world),
              absl::OkStatus());
  });
  RunResult run = world.ForEachSlot([&world](uint32_t slot) {
    constexpr uint64_t kLastIncarnation = 100;
    auto reader = world.OnServers(slot, kLastIncarnation, {.pull_f32 = true});
    EXPECT_EQ(reader->Start().status(), absl::OkStatus());
    world.ReadTrained(slot, *reader);
  });
  world.JoinShares();
  run.trained = world.trained();
  run.rounds = meeting.rounds();
  return run;
}

}  // namespace

void ExpectClose(const TrainedValues& actual, const TrainedValues& expected, double tolerance) {
  ASSERT_EQ(actual.values.size(), expected.values.size());
  EXPECT_EQ(actual.keys, expected.keys);
  for (const auto& [name, values] : expected.values) {
    ASSERT_EQ(actual.values.count(name), 1) << name;
    ASSERT_EQ(actual.values.at(name).size(), values.size()) << name;
    EXPECT_LE(RelativeDistance(actual.values.at(name), values), tolerance) << name;
  }
}

RunResult TrainAlone(v1::JobSpec spec, const RunOptions& options) {
  spec.set_workers(1);
  spec.mutable_parallelism()->clear_tensor();
  spec.mutable_parallelism()->clear_pipeline();
  absl::StatusOr<PreparedJob> job = PrepareJob(spec);
  EXPECT_EQ(job.status(), absl::OkStatus());
  if (!job.ok()) return {};
  FakeCoordinatorClient coordinator;
  RunResult run;
  const auto note = [&run](absl::string_view line) { run.log.emplace_back(line); };
  std::unique_ptr<LocalStrategy> strategy =
      LocalStrategy::Create(*job->schema, LossScaling(spec.compute(), {.log = note})).value();
  EXPECT_EQ(Train(spec, 0, {.observer = options.observer, .plan = options.plan}, *job, {*strategy},
                  coordinator, note),
            absl::OkStatus());
  LossSums sums;
  AddEvaluations(coordinator, sums);
  run.curve = Means(sums);
  std::map<std::string, std::vector<uint64_t>> keys;
  const auto& tables = job->model->description().sparse_tables;
  for (size_t t = 0; t < tables.size(); ++t) keys[tables[t].name] = strategy->Keys(t);
  run.trained = {
      ReadValues(*job, job->model->description().tensors, job->total_steps, *strategy, keys)};
  return run;
}

TrainedValues TrainLocally(v1::JobSpec spec, LossCurve* curve, std::vector<std::string>* log) {
  spec.clear_micro_batches();
  RunResult run = TrainAlone(std::move(spec), {});
  if (curve != nullptr) *curve = run.curve;
  if (log != nullptr) log->insert(log->end(), run.log.begin(), run.log.end());
  return run.trained.empty() ? TrainedValues() : std::move(run.trained[0]);
}

RunResult TrainOnServers(const v1::JobSpec& spec, const RunOptions& options) {
  absl::StatusOr<PreparedJob> job = PrepareJob(spec);
  EXPECT_EQ(job.status(), absl::OkStatus());
  if (!job.ok()) return {};
  if (TensorRanks(spec) > 1 || PipelineStages(spec) > 1)
    return TrainServedRanks(spec, options, *std::move(job));
  RunWorld world(spec, options, *std::move(job));
  return world.ForEachSlot([&world](uint32_t slot) {
    uint64_t incarnation = 1;
    for (const Death& death : world.Deaths(slot)) {
      auto strategy = world.OnServers(slot, incarnation++);
      DyingStrategy dying(*strategy, death);
      FakeCoordinatorClient coordinator;
      const absl::Status status = world.Train(slot, {dying}, coordinator);
      EXPECT_TRUE(dying.died()) << "the task never got to the call at which it was to die: "
                                << status;
    }
    auto strategy = world.OnServers(slot, incarnation);
    DyingStrategy living(*strategy, absl::nullopt);
    FakeCoordinatorClient coordinator;
    EXPECT_EQ(world.Train(slot, {living}, coordinator), absl::OkStatus());
    auto reader = world.OnServers(slot, incarnation + 1, {.pull_f32 = true});
    EXPECT_EQ(reader->Start().status(), absl::OkStatus());
    world.Finish(slot, living, *reader, coordinator);
  });
}

RunResult TrainByAllReduce(const v1::JobSpec& spec, const RunOptions& options) {
  absl::StatusOr<PreparedJob> job = PrepareJob(spec);
  EXPECT_EQ(job.status(), absl::OkStatus());
  if (!job.ok()) return {};
  InProcessOptions transport;
  transport.write_bytes = options.write_bytes;
  transport.share_memory = options.share_memory;
  Meeting meeting(static_cast<int>(spec.workers()), transport);
  RunWorld world(spec, options, *std::move(job));
  std::barrier<> all_done(spec.workers());
  RunResult run = world.ForEachSlot([&](uint32_t slot) {
    uint64_t incarnation = 1;
    for (const Death& death : world.Deaths(slot)) {
      auto strategy = world.ByAllReduce(slot, incarnation++);
      DyingStrategy dying(*strategy, death);
      FakeCoordinatorClient coordinator;
      const absl::Status status =
          TrainInRounds(slot, *strategy, dying, meeting, world, coordinator);
      EXPECT_TRUE(dying.died()) << "the task never got to the call at which it was to die: "
                                << status;
    }
    auto strategy = world.ByAllReduce(slot, incarnation);
    DyingStrategy living(*strategy, absl::nullopt);
    FakeCoordinatorClient coordinator;
    EXPECT_EQ(TrainInRounds(slot, *strategy, living, meeting, world, coordinator),
              absl::OkStatus());
    world.Finish(slot, living, *strategy, coordinator);
    world.AddRank(slot, *strategy);
    all_done.arrive_and_wait();
    world.TakeFromShards(slot);
  });
  run.rounds = meeting.rounds();
  return run;
}

}  // namespace muster
