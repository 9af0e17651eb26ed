#ifndef MUSTER_TESTS_MODEL_MODEL_CLUSTER_H_
#define MUSTER_TESTS_MODEL_MODEL_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/checkpoint/memory_storage.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "server/coordinator/checkpoints/storage_checkpoint_archive.h"
#include "server/coordinator/simulation/simulated_cluster.h"
#include "server/shard/resources/task_queue.h"
#include "server/shard/shard_engine.h"
#include "server/shard/storage/fake_log_file.h"
#include "server/shard/storage/memory_store_for_testing.h"

namespace muster {

// Ranks of one round, as ranks know each other; see model_rank.h.
struct ModelGroup;

// One task of a ModelCluster.
class ModelTask {
 public:
  virtual ~ModelTask() = default;

  // Does one thing, or finds that it has to wait; whether it did something.
  virtual bool Advance() = 0;
};

// What is done to the cluster.
struct Fault {
  enum class Kind {
    // A server's process dies and its next one starts at once.
    kRestartServer,
    // The same, and the link between the next one and the coordinator is down for `lasts`.
    kRestartServerUnheard,
    // A server's process dies, and its next one starts after `lasts`.
    kStopServer,
    // The link between a daemon and the coordinator is down for `lasts`; a worker's tasks use it.
    kCutServer,
    kCutWorker,
    // Tasks of one worker do not reach one server for `lasts`; by all-reduce, not one another.
    kCutData,
    kKillTask,
    kRestartWorker,
    kRestartCoordinator,
    // The message at hand is lost, or carried out and its answer is lost.
    kLoseRequest,
    kLoseAnswer,
  };
  Kind kind = Kind::kKillTask;
  // Which server, or which slot or worker.
  int target = 0;
  absl::Duration lasts;
};
std::string Describe(const Fault& fault);

// A cluster of two servers and two workers, one thing at a time: the coordinator's logic on a fake
// clock, the servers' engines, the connections of tasks, and checkpoint storage are those of the
// programs; daemons and tasks are models that do as the programs do, message by message. One
// synchronous job of two slots trains, on servers or by all-reduce; its gradients depend on all
// weights that a task has pulled, so partitions of different histories give other weights than a
// run without faults has.
//
// Faults happen at messages: those that a task sends to servers, other ranks or the coordinator,
// counted from 0.
class ModelCluster {
 public:
  struct Options {
    enum class Road { kServers, kAllReduce };
    Road road = Road::kServers;
    // On servers.
    v1::UpdateSpec::Durability durability = v1::UpdateSpec::CHECKPOINT;
    uint64_t seed = 1;
    // Faults by the number of the message at which they happen.
    std::multimap<uint64_t, Fault> faults;
    // kNaive: tasks name no process, expect no state, and tell nobody of lost state, so that a
    // server that was started again passes for a new one. By all-reduce they do not ask which
    // checkpoint was committed last, and a file takes the place of another one of its clock and
    // partition. Something for the checks to find.
    enum class Tasks { kCareful, kNaive };
    Tasks tasks = Tasks::kCareful;
    // Of the job: a task that takes a slot over pulls what the one before had pulled.
    bool deterministic = true;
  };

  explicit ModelCluster(Options options);
  ~ModelCluster();

  // Runs the job to its end, with time to recover from all faults. Returns what is wrong, in words;
  // empty: every checkpoint that was committed held the weights of a run without faults at its
  // clock, none of its files changed or went away while it was committed, and the job succeeded
  // with the weights of such a run.
  std::string Run();

  uint64_t messages() const { return messages_; }
  const Options& options() const { return options_; }

  // For tasks.
  enum class Fate { kArrives, kRequestLost, kAnswerLost };
  // A message of a task on `worker`; `server`: its number, or -1 for the coordinator.
  Fate Send(const std::string& worker, int server);
  // … to the other ranks of its round.
  Fate SendToRanks(const std::string& worker) { return Send(worker, worker[1] - '0'); }
  SimulatedCluster& cluster() { return *cluster_; }
  // Null: the process is down.
  ShardEngine* engine(int server) { return servers_[server].engine.get(); }
  uint64_t process(int server) const { return servers_[server].process; }
  TaskQueue& executor() { return executor_; }
  MemoryStorage& storage() { return storage_; }
  // The same for all who name it so.
  std::shared_ptr<ModelGroup> GroupOf(const std::string& name);
  // Held by whoever opens tables, the only calls that threads of a task make.
  absl::Mutex& opening() { return opening_; }

 private:
  struct Server {
    std::shared_ptr<MemoryStore> store = std::make_shared<MemoryStore>();
    FakeLogFileSystem files;
    std::unique_ptr<ShardEngine> engine;
    uint64_t process = 0;
  };

  void StartServer(int server);
  void StopServer(int server);
  void Inflict(const Fault& fault);
  void After(absl::Duration time, std::function<void()> act);
  // What is due, then the coordinator's and the daemons' turn.
  void PassTime(absl::Duration time);
  // Tasks begin and end with their workers' orders.
  void TakeOrders();
  void CheckCheckpoints();
  // Reads a checkpoint as a job that goes on from it does.
  std::vector<float> WeightsIn(const std::string& folder, uint64_t clock);
  // Every file of a checkpoint, its manifest last.
  std::map<std::string, std::string> FilesOf(const std::string& folder);
  void Wrong(const std::string& what);

  const Options options_;
  std::mt19937_64 random_;
  MemoryStorage storage_;
  StorageCheckpointArchive archive_{storage_, "/checkpoints"};
  TaskQueue executor_;
  std::unique_ptr<SimulatedCluster> cluster_;
  std::vector<Server> servers_{2};
  std::map<std::string, std::shared_ptr<ModelGroup>> groups_;
  std::map<std::string, std::unique_ptr<ModelTask>> tasks_;
  std::set<std::pair<std::string, int>> cut_data_;
  std::multimap<absl::Duration, std::function<void()>> due_;
  uint64_t messages_ = 0;
  Fate fate_ = Fate::kArrives;
  std::string job_;
  // By folder: the files of a checkpoint when it was first seen committed.
  std::map<std::string, std::map<std::string, std::string>> committed_;
  std::string wrong_;
  absl::Mutex opening_;
};

// Of the job: weights at each clock of a run without faults.
inline constexpr uint64_t kModelSteps = 12;
inline constexpr uint64_t kModelCheckpointEvery = 3;
const std::vector<std::vector<float>>& ModelWeights();
// The sum of gradients that a slot pushes at a clock, of the weights that it pulled.
std::vector<float> ModelGradient(uint32_t slot, uint64_t clock, const std::vector<float>& weights);
// The tables of the job, as tasks open them.
v1::OpenTablesRequest ModelTables();

}  // namespace muster

#endif  // MUSTER_TESTS_MODEL_MODEL_CLUSTER_H_
