#include "tests/equivalence/run_world.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/mesh/job_mesh.h"
#include "common/partition/local_tensors.h"
#include "gtest/gtest.h"
#include "proto/schema.pb.h"
#include "tests/equivalence/watched_client.h"

namespace muster {
namespace {

constexpr char kJob[] = "job-1";
constexpr uint64_t kGeneration = 1;

}  // namespace

RunWorld::RunWorld(const v1::JobSpec& spec, const RunOptions& options, PreparedJob job)
    : spec_(spec),
      options_(options),
      job_(std::move(job)),
      checkpoints_(options.checkpoints == nullptr ? own_checkpoints_ : *options.checkpoints),
      servers_(options.servers, checkpoints_.storage(), options.reach) {
  losses_.resize(spec.workers());
  run_.trained.resize(spec.workers());
  run_.counters.resize(spec.workers());
  run_.verified.resize(spec.workers());
  run_.calls.resize(spec.workers());
  run_.collectives.resize(spec.workers());
}

RunResult RunWorld::ForEachSlot(const std::function<void(uint32_t slot)>& body) {
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

void RunWorld::ForEachTask(uint32_t slot, const RunTask& run_task) {
  uint64_t incarnation = 1;
  for (const Death& death : options_.deaths) {
    if (death.slot != slot) continue;
    const TaskEnd end = run_task(incarnation++, death);
    EXPECT_EQ(end, TaskEnd::kDied)
        << "the task of slot " << slot << " never made the call at which it was to die: step "
        << death.at.step << ", hook " << static_cast<int>(death.at.hook) << ", call "
        << death.at.nth;
    if (end == TaskEnd::kFinished) return;
  }
  run_task(incarnation, absl::nullopt);
}

v1::TaskOrder RunWorld::Order(uint32_t slot, uint64_t incarnation) const {
  v1::TaskOrder order;
  order.set_job_id(kJob);
  *order.mutable_spec() = spec_;
  order.set_generation(kGeneration);
  order.set_slot(slot);
  order.set_worker_id(absl::StrCat("worker", slot));
  order.set_incarnation(incarnation);
  *order.mutable_shard_map() = servers_.Deal(kJob, kGeneration, job_.schema->partitions());
  order.set_checkpoint_root(checkpoints_.root());
  if (options_.from > 0) {
    order.set_restore_uri(checkpoints_.At(options_.from));
    order.set_start_clock(options_.from);
  }
  return order;
}

ShardRouterDependencies RunWorld::Routing(uint32_t slot, const v1::ShardMap& map,
                                          std::shared_ptr<RegisteredMemory> memory) {
  ShardRouterDependencies routing = servers_.Routing(map, std::move(memory));
  routing.log = [this](absl::string_view line) { Log(line); };
  if (options_.observer == nullptr) return routing;
  routing.make_client = [slot, &observer = *options_.observer,
                         make_client = std::move(routing.make_client)](const std::string& address) {
    return WatchClient(make_client(address), slot, observer);
  };
  return routing;
}

std::unique_ptr<ParameterServerStrategy> RunWorld::OnServers(
    uint32_t slot, uint64_t incarnation, ParameterServerStrategy::Options options) {
  const v1::TaskOrder order = Order(slot, incarnation);
  options.pull_window_bytes = options_.pull_window_bytes;
  options.checkpoints = &checkpoints_.storage();
  options.registered_memory = servers_.MakeTaskMemory();
  return ParameterServerStrategy::Create(
             order, *job_.schema, options,
             Routing(slot, order.shard_map(), options.registered_memory))
      .value();
}

std::unique_ptr<ServedGroup> RunWorld::OnServersWithPeers(uint32_t slot,
                                                          const v1::TaskOrder& order) {
  ServedGroup::Options options;
  options.servers.pull_window_bytes = options_.pull_window_bytes;
  options.servers.checkpoints = &checkpoints_.storage();
  return std::make_unique<ServedGroup>(order, *job_.schema, options,
                                       Routing(slot, order.shard_map(), nullptr));
}

std::unique_ptr<ShardedStrategy> RunWorld::ByAllReduce(uint32_t slot, uint64_t incarnation) {
  const v1::TaskOrder order = Order(slot, incarnation);
  ShardedDependencies dependencies;
  dependencies.storage = &checkpoints_.storage();
  dependencies.clock = &clock_;
  dependencies.offload_folder = checkpoints_.root();
  dependencies.log = [this](absl::string_view line) { Log(line); };
  dependencies.routing = Routing(slot, order.shard_map(), nullptr);
  return ShardedStrategy::Create(order, *job_.schema, {}, std::move(dependencies)).value();
}

absl::Status RunWorld::Train(uint32_t slot, const RankStrategy& strategy,
                             FakeCoordinatorClient& coordinator) {
  coordinator.OnVerifyStep([more = options_.further_shares](const v1::VerifyStepRequest& request) {
    v1::VerifyStepReply reply;
    if (request.attempt() < more) reply.set_next_distance(request.attempt() + 2);
    return reply;
  });
  return TrainSlot(spec_, slot, options_, job_, strategy, coordinator,
                   [this](absl::string_view line) { Log(line); });
}

void RunWorld::Log(absl::string_view line) {
  absl::MutexLock lock(&mutex_);
  run_.log.emplace_back(line);
}

void RunWorld::Finish(uint32_t slot, const DyingStrategy& strategy, Strategy& reader,
                      const FakeCoordinatorClient& coordinator) {
  NoteRun(slot, strategy, coordinator);
  ReadTrained(slot, reader);
}

void RunWorld::ReadTrained(uint32_t slot, Strategy& reader) {
  TrainedValues trained =
      ReadValues(job_, TensorsOf(spec_, slot, job_), job_.total_steps, reader, options_.keys);
  absl::MutexLock lock(&mutex_);
  run_.trained[slot] = std::move(trained);
}

std::vector<TrainedValues> RunWorld::trained() {
  absl::MutexLock lock(&mutex_);
  return run_.trained;
}

void RunWorld::NoteRun(uint32_t slot, const DyingStrategy& strategy,
                       const FakeCoordinatorClient& coordinator) {
  if (slot == 0) {
    for (const v1::CommitCheckpointRequest& request : coordinator.checkpoints()) {
      checkpoints_.Commit(kJob, kGeneration, request);
    }
  }
  absl::MutexLock lock(&mutex_);
  run_.counters[slot] = strategy.counters();
  run_.calls[slot] = strategy.calls();
  run_.verified[slot] = coordinator.verified();
  AddEvaluations(coordinator, losses_[slot]);
  if (!coordinator.evaluations().empty()) {
    run_.evaluated += coordinator.evaluations().back().examples();
    run_.correct += coordinator.evaluations().back().correct();
  }
}

void RunWorld::NoteCalls(uint32_t slot, absl::Span<const FlightRecorder* const> groups) {
  absl::MutexLock lock(&mutex_);
  run_.collectives[slot].clear();
  for (const FlightRecorder* group : groups) run_.collectives[slot].push_back(group->Calls());
}

void RunWorld::AddRank(uint32_t slot, const ShardedStrategy& strategy) {
  const ShardState& state = strategy.shard_state();
  absl::MutexLock lock(&mutex_);
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

void RunWorld::TakeFromShards(uint32_t slot) {
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

void RunWorld::JoinShares() {
  absl::MutexLock lock(&mutex_);
  // There is one for each data rank, or for those that have all experts together.
  std::map<int, std::map<std::string, std::vector<float>>> whole;
  const Mesh mesh = MeshOf(spec_);
  const Axes wholes = kDataAxes.Without(kExpertAxes);
  const int slots = static_cast<int>(spec_.workers());
  for (int slot = 0; slot < slots; ++slot) {
    std::map<std::string, std::vector<float>>& values = whole[mesh.Position(slot, wholes)];
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
    run_.trained[slot].values = whole[mesh.Position(slot, wholes)];
  }
}

int RunWorld::ReplicaOf(uint32_t slot) const {
  return MeshOf(spec_).Position(static_cast<int>(slot), kStateAxes.Others());
}

}  // namespace muster
