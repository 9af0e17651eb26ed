#ifndef MUSTER_SERVER_COORDINATOR_SIMULATION_SIMULATED_CLUSTER_H_
#define MUSTER_SERVER_COORDINATOR_SIMULATION_SIMULATED_CLUSTER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "server/coordinator/calls/serial_executor.h"
#include "server/coordinator/checkpoints/fake_checkpoint_archive.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/store/memory_job_store.h"

namespace muster {

// A store that can be told to fail.
class FlakyJobStore final : public JobStore {
 public:
  absl::Status Write(const JobStoreBatch& batch, Durability durability) override {
    if (failing) return absl::UnavailableError("the disk is full");
    return store_.Write(batch, durability);
  }
  absl::Status Scan(StoreTable table, absl::string_view prefix,
                    absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> visitor)
      const override {
    return store_.Scan(table, prefix, visitor);
  }

  bool failing = false;

 private:
  MemoryJobStore store_;
};

// The answer to a call, once it came.
template <typename Reply>
class Answer {
 public:
  Call<Reply> call() {
    return {.done = [state = state_](absl::StatusOr<Reply> reply) { *state = std::move(reply); },
            .cancelled = cancelled_};
  }
  // The caller does not wait any more.
  void Cancel() { cancelled_->store(true, std::memory_order_release); }
  bool came() const { return state_->has_value(); }
  // REQUIRES: came().
  const absl::StatusOr<Reply>& get() const { return **state_; }
  absl::Status status() const {
    return came() ? get().status() : absl::UnknownError("still parked");
  }

 private:
  std::shared_ptr<std::optional<absl::StatusOr<Reply>>> state_ =
      std::make_shared<std::optional<absl::StatusOr<Reply>>>();
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

// A coordinator with a fake clock on one thread, and daemons and tasks that do as they are told.
// The coordinator can be restarted at any time; the rest goes on, as it would.
class SimulatedCluster {
 public:
  static constexpr uint32_t kProcessorsOfASlot = 2;

  struct Daemon {
    v1::DaemonKind kind = v1::WORKER;
    std::string id;
    std::string address;
    uint64_t nonce = 0;
    uint64_t incarnation = 0;
    uint64_t seen_version = 0;
    // Its last orders, and what it reports of their tasks.
    v1::HeartbeatReply orders;
    std::vector<v1::TaskReport> reports;
    std::vector<std::string> dropped;
    // Orders to drop tables fail.
    bool cannot_drop = false;
    // What it has left of jobs from before.
    std::set<std::string> held_jobs;
    // What it reports of moves, as long as it stands.
    std::vector<v1::MoveReport> moves;
    uint32_t slots = 0;
    // Bytes of each device.
    std::vector<uint64_t> devices;
    bool multiplies_bf16 = false;
  };

  // Checkpoints are kept by `archive` below, or by the one that is lent.
  explicit SimulatedCluster(CoordinatorOptions options = {}, CheckpointArchive* lent = nullptr);

  // Forgets everything but the store.
  void RestartCoordinator();
  Coordinator& coordinator() { return *coordinator_; }

  // Runs what is posted and settles.
  void Run();
  // Lets time pass in ticks, during which live daemons send heartbeats.
  void Pass(absl::Duration time);

  Daemon& AddWorker(const std::string& id, uint32_t slots = 1, uint64_t memory_bytes = 0,
                    std::vector<uint64_t> devices = {}, bool multiplies_bf16 = false);
  Daemon& AddServer(const std::string& id, uint64_t memory_bytes = 0);
  Daemon& daemon(const std::string& id) { return daemons_.at(id); }
  std::map<std::string, Daemon>& daemons() { return daemons_; }
  // The process is gone; the coordinator is not told.
  void Kill(const std::string& id);
  // A new process of the same id and address.
  void RestartDaemon(const std::string& id);
  // Between a daemon and the coordinator; from now on, also for its later processes.
  void CutLink(const std::string& id) { cut_.insert(id); }
  void HealLink(const std::string& id) { cut_.erase(id); }
  bool IsCut(const std::string& id) const { return cut_.count(id) > 0; }
  // A heartbeat; takes the orders that come back, registering again first if need be.
  void Beat(const std::string& id);
  void BeatAll();

  absl::StatusOr<std::string> Submit(const v1::JobSpec& spec, const std::string& request_id = "");
  v1::JobStatus Status(const std::string& job_id);
  v1::JobState State(const std::string& job_id) { return Status(job_id).state(); }
  bool HasEvent(const std::string& job_id, const std::string& text);

  // The order for a slot, wherever it is; null: nobody has one.
  const v1::TaskOrder* Order(const std::string& job_id, uint32_t slot);
  // Every order of a job.
  std::vector<v1::TaskOrder> Orders(const std::string& job_id);

  // What a task that trains by all-reduce knows: the last round it was given, and the clock of its
  // replica, which it has as soon as it is told of a round (the source's, or the order's start).
  struct Rank {
    uint64_t round = 0;
    std::optional<uint64_t> clock;
    // Its last call was not over in time.
    bool late = false;
    // Why its last round ended.
    std::string failure;
  };
  Rank& rank(const v1::TaskOrder& order) { return ranks_[EndpointOf(order)]; }
  static std::string EndpointOf(const v1::TaskOrder& order);
  // Called with every answer that opened a round for a task, before the task takes it, and the
  // round that the task named.
  std::function<void(const v1::TaskOrder&, uint64_t, const v1::RendezvousReply&)> on_round;
  // Tasks do not hear of the rounds that they are told of.
  bool answers_are_lost = false;
  // The answer to the last report of progress.
  v1::ReportProgressReply progress_reply;

  // What tasks do. The slot's present order gives their identity.
  static v1::TaskIdentity Identity(const v1::TaskOrder& order);
  Answer<v1::RendezvousReply> Rendezvous(const v1::TaskOrder& order, uint64_t total_steps = 10,
                                         uint64_t data_fingerprint = 7);
  absl::Status Progress(const v1::TaskOrder& order, uint64_t clock);
  absl::Status TellWait(const v1::TaskOrder& order, const std::string& waits_for);
  Answer<v1::ReportEvaluationReply> Evaluate(const v1::TaskOrder& order, uint64_t clock,
                                             uint64_t correct = 5);
  Answer<v1::CommitCheckpointReply> Checkpoint(const v1::TaskOrder& order, uint64_t clock,
                                               const std::string& data_preparation = "");
  Answer<v1::ListCollectivesReply> ListCollectives(const std::string& job_id);
  absl::Status TellCollectives(const v1::TaskOrder& order, const std::vector<std::string>& labels);
  Answer<v1::ShardMap> GetShardMap(const v1::TaskOrder& order, uint64_t min_version,
                                   absl::Duration wait);
  // The task's daemon reports its end with the next heartbeat, which is sent.
  void End(const v1::TaskOrder& order, int code = 0, const std::string& message = "",
           v1::TaskReport::Loss loss = v1::TaskReport::LOSS_UNSPECIFIED);
  void Die(const v1::TaskOrder& order);

  // All of a job's tasks, from their present orders.
  void MeetAll(const std::string& job_id);
  void ProgressAll(const std::string& job_id, uint64_t clock);
  void EvaluateAll(const std::string& job_id, uint64_t clock, uint64_t correct = 5);
  void EndAll(const std::string& job_id);
  // From wherever the job is to its end.
  void Finish(const std::string& job_id, uint64_t total_steps = 10);

  FakeClock clock;
  FlakyJobStore store;
  FakeCheckpointArchive archive;

 private:
  Daemon& Add(Daemon daemon, uint64_t memory_bytes);
  void Register(Daemon& daemon);
  void Report(const v1::TaskOrder& order, v1::TaskReport::State state, int code,
              const std::string& message, v1::TaskReport::Loss loss);
  void Meet(const v1::TaskOrder& order, uint64_t named, const v1::RendezvousReply& reply);
  Daemon* HolderOf(const v1::TaskOrder& order);

  const CoordinatorOptions options_;
  CheckpointArchive* const lent_;
  std::set<std::string> cut_;
  ManualExecutor logic_;
  ManualExecutor disk_;
  ManualExecutor planning_;
  std::unique_ptr<Coordinator> coordinator_;
  std::map<std::string, Daemon> daemons_;
  std::map<std::string, uint64_t> memory_;
  // By endpoint and round: what the source had when the round opened.
  std::map<std::string, std::optional<uint64_t>> source_clocks_;
  // By endpoint.
  std::map<std::string, Rank> ranks_;
  uint64_t next_nonce_ = 1;
  uint64_t next_request_ = 1;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SIMULATION_SIMULATED_CLUSTER_H_
