#include "tests/model/model_cluster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job/test_jobs.h"
#include "common/partition/layout_from_schema_for_testing.h"
#include "common/partition/schema.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/coordinator.h"
#include "server/shard/calls/test_exchange.h"
#include "tests/model/model_rank.h"
#include "tests/model/model_server_task.h"

namespace muster {
namespace {

constexpr uint64_t kElements = 8;
constexpr uint32_t kSlots = 2;
constexpr uint32_t kPartitions = 2;
// How long a turn takes in which nobody did anything.
constexpr absl::Duration kIdle = absl::Milliseconds(500);
constexpr absl::Duration kBusy = absl::Milliseconds(1);
// Daemons are heard less often than tasks.
constexpr int kTurnsATick = 4;
// More turns than a job takes that recovers from anything.
constexpr int kMostTurns = 20000;

std::string ServerId(int server) { return absl::StrCat("s", server); }
std::string WorkerId(int worker) { return absl::StrCat("w", worker); }

v1::JobSpec ModelJob(const ModelCluster::Options& options) {
  const bool on_servers = options.road == ModelCluster::Options::Road::kServers;
  v1::JobSpec spec = on_servers ? SmallJob() : AllReduceJob();
  spec.mutable_data()->clear_holdout();
  spec.mutable_update()->set_partitions(kPartitions);
  if (on_servers) spec.mutable_update()->set_durability(options.durability);
  spec.mutable_update()->set_deterministic(options.deterministic);
  spec.set_workers(kSlots);
  spec.mutable_stop()->set_steps(kModelSteps);
  spec.mutable_checkpoint()->set_every_steps(kModelCheckpointEvery);
  return spec;
}

}  // namespace

std::string Describe(const Fault& fault) {
  static constexpr const char* kNames[] = {"restart server",      "restart server unheard",
                                           "stop server",         "cut server",
                                           "cut worker",          "cut data",
                                           "kill task",           "restart worker",
                                           "restart coordinator", "lose request",
                                           "lose answer"};
  return absl::StrCat(kNames[static_cast<int>(fault.kind)], " ", fault.target, " for ",
                      absl::FormatDuration(fault.lasts));
}

v1::OpenTablesRequest ModelTables() {
  v1::OpenTablesRequest request;
  request.set_slots(kSlots);
  v1::TablesSchema& schema = *request.mutable_schema();
  v1::TensorSchema& tensor = *schema.add_tensors();
  tensor.set_name("w");
  tensor.add_shape(kElements);
  tensor.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
  tensor.mutable_initializer()->set_value(1);
  schema.set_partitions(kPartitions);
  schema.set_block_bytes(kElements / kPartitions * sizeof(float));
  schema.mutable_optimizer()->set_name("sgd");
  schema.mutable_optimizer()->set_learning_rate(1);
  schema.mutable_schedule()->set_name("constant");
  schema.set_seed(7);
  schema.set_total_steps(kModelSteps);
  return request;
}

std::vector<float> ModelGradient(uint32_t slot, uint64_t clock, const std::vector<float>& weights) {
  uint64_t mixed = 0x9e3779b97f4a7c15 * (1 + slot + kSlots * clock);
  for (const float weight : weights) {
    mixed ^= static_cast<uint64_t>(static_cast<int64_t>(weight)) + 0x7f4a7c15 + (mixed << 6) +
             (mixed >> 2);
  }
  std::vector<float> gradient(weights.size());
  for (float& element : gradient) {
    mixed = mixed * 6364136223846793005 + 1442695040888963407;
    // Even, so that the mean over two examples is an integer, and all sums are exact.
    element = 2 * (static_cast<int>((mixed >> 33) % 7) - 3);
  }
  return gradient;
}

const std::vector<std::vector<float>>& ModelWeights() {
  static const auto& weights = *[] {
    auto all = new std::vector<std::vector<float>>{std::vector<float>(kElements, 1)};
    for (uint64_t clock = 0; clock < kModelSteps; ++clock) {
      std::vector<float> next = all->back();
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        const std::vector<float> gradient = ModelGradient(slot, clock, all->back());
        for (uint64_t i = 0; i < kElements; ++i) next[i] -= gradient[i] / kSlots;
      }
      all->push_back(std::move(next));
    }
    return all;
  }();
  return weights;
}

ModelCluster::ModelCluster(Options options)
    : options_(std::move(options)),
      random_(options_.seed),
      cluster_(std::make_unique<SimulatedCluster>(CoordinatorOptions(), &archive_)) {
  for (int server = 0; server < static_cast<int>(servers_.size()); ++server) {
    cluster_->AddServer(ServerId(server));
    StartServer(server);
  }
  for (uint32_t worker = 0; worker < kSlots; ++worker) cluster_->AddWorker(WorkerId(worker));
}

ModelCluster::~ModelCluster() {
  tasks_.clear();
  for (int server = 0; server < static_cast<int>(servers_.size()); ++server) StopServer(server);
}

void ModelCluster::StartServer(int server) {
  Server& started = servers_[server];
  started.process = cluster_->daemon(ServerId(server)).nonce;
  ShardEngine::Options options;
  options.store = started.store;
  options.log_dir = "/logs";
  options.log_file_system = &started.files;
  options.log_segment_bytes = 1 << 12;
  options.checkpoint_storage = &storage_;
  options.executor = &executor_;
  options.process_nonce = started.process;
  auto engine = ShardEngine::Create(std::move(options));
  ASSERT_TRUE(engine.ok()) << engine.status();
  started.engine = *std::move(engine);
}

void ModelCluster::StopServer(int server) {
  executor_.RunAll();
  servers_[server].engine.reset();
  servers_[server].files.Crash(random_());
}

void ModelCluster::After(absl::Duration time, std::function<void()> act) {
  due_.emplace(cluster_->clock.Monotonic() + time, std::move(act));
}

void ModelCluster::Inflict(const Fault& fault) {
  const int target = fault.target;
  const auto cut = [&](const std::string& daemon) {
    cluster_->CutLink(daemon);
    After(fault.lasts, [this, daemon] { cluster_->HealLink(daemon); });
  };
  const auto restart = [this, target] {
    StopServer(target);
    cluster_->RestartDaemon(ServerId(target));
    StartServer(target);
  };
  switch (fault.kind) {
    case Fault::Kind::kRestartServerUnheard:
      cut(ServerId(target));
      [[fallthrough]];
    case Fault::Kind::kRestartServer:
      if (engine(target) != nullptr) restart();
      break;
    case Fault::Kind::kStopServer:
      if (engine(target) == nullptr) break;
      StopServer(target);
      cluster_->Kill(ServerId(target));
      After(fault.lasts, [this, target] {
        cluster_->AddServer(ServerId(target));
        StartServer(target);
      });
      break;
    case Fault::Kind::kCutServer:
      cut(ServerId(target));
      break;
    case Fault::Kind::kCutWorker:
      cut(WorkerId(target));
      break;
    case Fault::Kind::kCutData:
      cut_data_.insert({WorkerId(target), target});
      After(fault.lasts, [this, target] { cut_data_.erase({WorkerId(target), target}); });
      break;
    case Fault::Kind::kKillTask:
      if (const v1::TaskOrder* order = cluster_->Order(job_, target)) cluster_->Die(*order);
      break;
    case Fault::Kind::kRestartWorker:
      cluster_->RestartDaemon(WorkerId(target));
      break;
    case Fault::Kind::kRestartCoordinator:
      cluster_->RestartCoordinator();
      break;
    case Fault::Kind::kLoseRequest:
      fate_ = Fate::kRequestLost;
      break;
    case Fault::Kind::kLoseAnswer:
      fate_ = Fate::kAnswerLost;
      break;
  }
}

ModelCluster::Fate ModelCluster::Send(const std::string& worker, int server) {
  fate_ = Fate::kArrives;
  const auto [first, last] = options_.faults.equal_range(messages_++);
  for (auto fault = first; fault != last; ++fault) Inflict(fault->second);
  if (server < 0 ? cluster_->IsCut(worker) : cut_data_.count({worker, server}) > 0) {
    return Fate::kRequestLost;
  }
  return fate_;
}

std::shared_ptr<ModelGroup> ModelCluster::GroupOf(const std::string& name) {
  std::shared_ptr<ModelGroup>& group = groups_[name];
  if (group == nullptr) group = std::make_shared<ModelGroup>();
  return group;
}

void ModelCluster::PassTime(absl::Duration time) {
  cluster_->Pass(time);
  while (!due_.empty() && due_.begin()->first <= cluster_->clock.Monotonic()) {
    const auto act = due_.extract(due_.begin());
    act.mapped()();
  }
  for (auto& [id, daemon] : cluster_->daemons()) {
    if (daemon.kind != v1::SERVER || cluster_->IsCut(id)) continue;
    ShardEngine* const server = engine(id[1] - '0');
    for (const v1::DropOrder& drop : daemon.orders.drops()) {
      v1::DropTablesRequest request;
      request.set_job_id(drop.job_id());
      request.set_generation(drop.generation());
      if (server != nullptr) server->DropTables(request).IgnoreError();
      executor_.RunAll();
    }
  }
}

void ModelCluster::TakeOrders() {
  std::map<std::string, std::unique_ptr<ModelTask>> tasks;
  for (const auto& [id, daemon] : cluster_->daemons()) {
    for (const v1::TaskOrder& order : daemon.orders.tasks()) {
      const std::string name =
          absl::StrCat(id, "#", daemon.nonce, "#", SimulatedCluster::EndpointOf(order));
      auto node = tasks_.extract(name);
      if (!node.empty()) {
        tasks[name] = std::move(node.mapped());
      } else if (options_.road == Options::Road::kServers) {
        tasks[name] = std::make_unique<ModelServerTask>(*this, id, order);
      } else {
        tasks[name] = std::make_unique<ModelRank>(*this, id, order);
      }
    }
  }
  tasks_ = std::move(tasks);
}

std::string ModelCluster::Run() {
  const auto job = cluster_->Submit(ModelJob(options_));
  if (!job.ok()) return absl::StrCat("not submitted: ", job.status().message());
  job_ = *job;
  for (int turn = 0; turn < kMostTurns && wrong_.empty(); ++turn) {
    TakeOrders();
    std::vector<std::string> names;
    for (const auto& [name, task] : tasks_) names.push_back(name);
    std::shuffle(names.begin(), names.end(), random_);
    bool busy = false;
    for (const std::string& name : names) {
      // Somebody before it may have ended it.
      if (const auto task = tasks_.find(name); task != tasks_.end()) {
        busy = task->second->Advance() || busy;
      }
    }
    if (!busy || turn % kTurnsATick == 0) PassTime(busy ? kBusy : kIdle);
    if (!busy || turn % 16 == 0) CheckCheckpoints();
    const v1::JobState state = cluster_->State(job_);
    if (state == v1::FAILED || state == v1::SUCCEEDED) break;
  }
  CheckCheckpoints();
  const v1::JobStatus status = cluster_->Status(job_);
  if (status.state() != v1::SUCCEEDED) {
    Wrong(absl::StrCat("the job is ", v1::JobState_Name(status.state()),
                       " at the end: ", status.message()));
  } else if (committed_.empty()) {
    Wrong("the job succeeded without a checkpoint");
  }
  return wrong_;
}

void ModelCluster::CheckCheckpoints() {
  Answer<v1::ListCheckpointsReply> answer;
  cluster_->coordinator().checkpoints().List(job_, answer.call());
  cluster_->Run();
  if (!answer.came() || !answer.get().ok()) return;
  for (const v1::CheckpointStatus& checkpoint : answer.get()->checkpoints()) {
    const std::string& folder = checkpoint.uri();
    const auto [known, is_new] = committed_.try_emplace(folder);
    if (is_new) {
      known->second = FilesOf(folder);
      if (WeightsIn(folder, checkpoint.clock()) != ModelWeights()[checkpoint.clock()]) {
        Wrong(absl::StrCat("the checkpoint at clock ", checkpoint.clock(),
                           " holds other weights than a run without faults has"));
      }
      continue;
    }
    std::map<std::string, std::string> now = FilesOf(folder);
    for (const auto& [name, bytes] : known->second) {
      if (now.count(name) == 0) {
        Wrong(absl::StrCat("file ", name, " of a committed checkpoint is gone"));
      } else if (now[name] != bytes) {
        Wrong(absl::StrCat("file ", name, " of a committed checkpoint changed"));
      }
    }
  }
}

std::map<std::string, std::string> ModelCluster::FilesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  const auto names = storage_.List(folder);
  if (!names.ok()) return files;
  for (const std::string& name : *names) {
    const auto bytes = ReadFile(storage_, JoinUri(folder, name));
    if (bytes.ok()) files[JoinUri(folder, name)] = *bytes;
  }
  return files;
}

std::vector<float> ModelCluster::WeightsIn(const std::string& folder, uint64_t clock) {
  TaskQueue executor;
  ShardEngine::Options options;
  options.checkpoint_storage = &storage_;
  options.executor = &executor;
  auto engine = ShardEngine::Create(std::move(options));
  v1::OpenTablesRequest request = ModelTables();
  request.set_job_id("reader");
  request.set_generation(1);
  request.set_slots(1);
  request.set_restore_uri(folder);
  request.set_start_clock(clock);
  request.set_checkpoint_root("/other");
  for (uint32_t p = 0; p < kPartitions; ++p) request.add_partitions()->set_partition(p);
  const absl::Status opened = (*engine)->OpenTables(request).status();
  if (!opened.ok()) {
    Wrong(absl::StrCat("a committed checkpoint cannot be read: ", opened.message()));
    return {};
  }
  const DenseLayout layout = LayoutFromSchema(request.schema());
  std::vector<float> weights(kElements);
  for (uint32_t p = 0; p < kPartitions; ++p) {
    v1::ExchangeRequest pull;
    pull.set_job_id("reader");
    pull.set_generation(1);
    pull.set_partition(p);
    pull.set_clock(clock);
    pull.mutable_dense_pull()->set_blocks(layout.partition_blocks(p).size());
    TestAnswer answer;
    (*engine)->Execute(MakeTestCall(pull, Payload(), answer));
    executor.RunAll();
    const std::vector<float> values = answer.floats();
    size_t at = 0;
    for (const uint32_t id : layout.partition_blocks(p)) {
      for (uint64_t i = layout.blocks()[id].begin; i < layout.blocks()[id].end; ++i) {
        weights[i] = values[at++];
      }
    }
  }
  return weights;
}

void ModelCluster::Wrong(const std::string& what) {
  if (wrong_.empty()) wrong_ = what;
}

}  // namespace muster
