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
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/fake_clock_for_testing.h"
#include "server/coordinator/calls/manual_executor_for_testing.h"
#include "server/coordinator/checkpoints/fake_checkpoint_archive.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/store/memory_job_store_for_testing.h"

namespace muster {

// A store that can be told to fail, and counts what a disk would sync.
class FlakyJobStore final : public JobStore {
 public:
  absl::Status Write(const JobStoreBatch& batch, Durability durability) override {
    if (failing) return absl::UnavailableError("the disk is full");
    if (durability == Durability::kSynced) ++syncs;
    return store_.Write(batch, durability);
  }
  absl::Status Scan(StoreTable table, absl::string_view prefix,
                    absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> visitor)
      const override {
    return store_.Scan(table, prefix, visitor);
  }

  bool failing = false;
  // Number of synced writes.
  int syncs = 0;

 private:
  MemoryJobStore store_;
};

// The answer to a call, once it has come.
template <typename Reply>
class Answer {
 public:
  Call<Reply> call() {
    return {.done = [state = state_](absl::StatusOr<Reply> reply) { *state = std::move(reply); },
            .cancelled = cancelled_};
  }
  // Marks the caller as gone.
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

// Longest silence of a daemon that is not lost.
inline constexpr absl::Duration kLease = absl::Seconds(5);

// A coordinator with a fake clock on one thread, and daemons and tasks that do as they are told.
// The coordinator can be restarted at any time; the rest goes on as it would.
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
    // Its last orders, and its reports on their tasks.
    v1::HeartbeatReply orders;
    std::vector<v1::TaskReport> reports;
    std::vector<std::string> dropped;
    // True: orders to drop tables fail.
    bool cannot_drop = false;
    // Jobs from before that it still holds tables of.
    std::set<std::string> held_jobs;
    // Its reports on moves, sent with every heartbeat.
    std::vector<v1::MoveReport> moves;
    // The times that its partitions took, sent with every heartbeat.
    std::vector<v1::PartitionLoad> loads;
    uint32_t slots = 0;
    // Bytes of each device.
    std::vector<uint64_t> devices;
    bool multiplies_bf16 = false;
    bool allows_programs = true;
    // True: it was told that it must leave, and says so.
    bool leaves = false;
  };

  // `lent` keeps the checkpoints in place of `archive` below; null: `archive` does.
  explicit SimulatedCluster(CoordinatorOptions options = {}, CheckpointArchive* lent = nullptr);

  // Restarts the coordinator, which forgets everything except the store.
  void RestartCoordinator();
  Coordinator& coordinator() { return *coordinator_; }

  // Runs what is posted, and settles.
  void Run();
  // Lets time pass in ticks, during which live daemons send heartbeats.
  void Pass(absl::Duration time);

  Daemon& AddWorker(const std::string& id, uint32_t slots = 1, uint64_t memory_bytes = 0,
                    std::vector<uint64_t> devices = {}, bool multiplies_bf16 = false);
  Daemon& AddServer(const std::string& id, uint64_t memory_bytes = 0);
  Daemon& daemon(const std::string& id) { return daemons_.at(id); }
  std::map<std::string, Daemon>& daemons() { return daemons_; }
  // Ends a daemon's process without telling the coordinator.
  void Kill(const std::string& id);
  // Starts a new process of the same id and address.
  void RestartDaemon(const std::string& id);
  // Cuts the link between a daemon, its later processes included, and the coordinator.
  void CutLink(const std::string& id) { cut_.insert(id); }
  void HealLink(const std::string& id) { cut_.erase(id); }
  bool IsCut(const std::string& id) const { return cut_.count(id) > 0; }
  // Sends a heartbeat and takes the orders that come back; registers again first if needed.
  void Beat(const std::string& id);
  void BeatAll();

  absl::StatusOr<std::string> Submit(const v1::JobSpec& spec, const std::string& request_id = "");
  v1::JobStatus Status(const std::string& job_id);
  v1::JobState State(const std::string& job_id) { return Status(job_id).state(); }
  bool HasEvent(const std::string& job_id, const std::string& text);

  // Returns the order for a slot, whichever daemon has it; null: none has.
  const v1::TaskOrder* Order(const std::string& job_id, uint32_t slot);
  // Returns all orders of a job.
  std::vector<v1::TaskOrder> Orders(const std::string& job_id);

  // State of an all-reduce task: its last round, and the clock of its replica, which it has as soon
  // as it is told of a round (the source's, or the order's start).
  // A rank of a job with redundancy keeps copies of others' shards (Keepers), and all sums.
  struct Rank {
    uint64_t round = 0;
    std::optional<uint64_t> clock;
    // Its shard in that round, and the number of shards, if the round's ranks divide the
    // parameters.
    uint32_t shard = 0;
    uint32_t shards = 0;
    std::vector<uint32_t> copies;
    // Set of jobs with redundancy.
    std::string worker_id;
    // True if its last collective call timed out.
    bool late = false;
    // Why its last round ended.
    std::string failure;
    // On servers: the clock at which it says that its generation takes the tables over; absent: 0.
    std::optional<uint64_t> taken_over_clock;
  };
  Rank& rank(const v1::TaskOrder& order) { return ranks_[EndpointOf(order)]; }
  static std::string EndpointOf(const v1::TaskOrder& order);
  // Called with each answer that opens a round, and the round that the task named, before the task
  // takes it.
  std::function<void(const v1::TaskOrder&, uint64_t, const v1::RendezvousReply&)> on_round;
  // True: the answers that tell tasks of a round are lost.
  bool answers_are_lost = false;
  // The answer to the last report of progress.
  v1::ReportProgressReply progress_reply;

  // Calls of a task, whose identity the slot's present order gives.
  static v1::TaskIdentity Identity(const v1::TaskOrder& order);
  Answer<v1::RendezvousReply> Rendezvous(const v1::TaskOrder& order, uint64_t total_steps = 10,
                                         uint64_t data_fingerprint = 7);
  // Reports the step that closes `clock`; without a loss it is the task's generation.
  absl::Status Progress(const v1::TaskOrder& order, uint64_t clock,
                        std::optional<double> loss = std::nullopt);
  // Reports the step that closes `clock`, whose loss is not a number.
  absl::Status Diverge(const v1::TaskOrder& order, uint64_t clock);
  // Reports a collective call that has lasted for some seconds.
  absl::Status TellLongCall(const v1::TaskOrder& order, const std::string& label);
  absl::Status TellWait(const v1::TaskOrder& order, const std::string& waits_for);
  Answer<v1::ReportEvaluationReply> Evaluate(const v1::TaskOrder& order, uint64_t clock,
                                             uint64_t correct = 5);
  // `request` has what the task tells beside its name and the clock.
  Answer<v1::AdjustReply> Adjust(const v1::TaskOrder& order, uint64_t clock,
                                 v1::AdjustRequest request = {});
  // Tells fingerprints of shares of the step at `clock`, each of a data rank.
  Answer<v1::VerifyStepReply> Verify(const v1::TaskOrder& order, uint64_t clock, uint32_t attempt,
                                     const std::vector<std::pair<uint32_t, uint64_t>>& shares,
                                     const std::string& processor = "one");
  Answer<v1::CommitCheckpointReply> Checkpoint(const v1::TaskOrder& order, uint64_t clock,
                                               const std::string& data_preparation = "");
  // Commits a part of a program's checkpoint, or all of it, with files of these names.
  Answer<v1::CommitCheckpointReply> CommitPart(
      const v1::TaskOrder& order, uint64_t clock, const std::vector<std::string>& names,
      const std::string& schema = "",
      v1::CommitCheckpointRequest::ProgramPart part = v1::CommitCheckpointRequest::PART);
  Answer<v1::ListCollectivesReply> ListCollectives(const std::string& job_id);
  absl::Status TellCollectives(const v1::TaskOrder& order, const std::vector<std::string>& labels);
  Answer<v1::ShardMap> GetShardMap(const v1::TaskOrder& order, uint64_t min_version,
                                   absl::Duration wait);
  // Makes the task's daemon report the task's end with a heartbeat.
  void End(const v1::TaskOrder& order, int code = 0, const std::string& message = "",
           v1::TaskReport::Loss loss = v1::TaskReport::LOSS_UNSPECIFIED);
  void Die(const v1::TaskOrder& order);

  // Make all of a job's tasks act by their present orders.
  void MeetAll(const std::string& job_id);
  void ProgressAll(const std::string& job_id, uint64_t clock);
  void EvaluateAll(const std::string& job_id, uint64_t clock, uint64_t correct = 5);
  // Returns the answer to the last task.
  absl::StatusOr<v1::AdjustReply> AdjustAll(const std::string& job_id, uint64_t clock);
  void EndAll(const std::string& job_id);
  // Takes a job from wherever it is to its end.
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
  // Clock of the source's replica when a round opened, by endpoint and round.
  std::map<std::string, std::optional<uint64_t>> source_clocks_;
  // Tasks by endpoint.
  std::map<std::string, Rank> ranks_;
  uint64_t next_nonce_ = 1;
  uint64_t next_request_ = 1;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SIMULATION_SIMULATED_CLUSTER_H_
