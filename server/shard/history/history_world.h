#ifndef MUSTER_SERVER_SHARD_HISTORY_HISTORY_WORLD_H_
#define MUSTER_SERVER_SHARD_HISTORY_HISTORY_WORLD_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/memory_storage.h"
#include "server/shard/history/history_workload.h"
#include "server/shard/resources/task_queue.h"
#include "server/shard/shard_engine.h"
#include "server/shard/storage/fake_log_file.h"
#include "server/shard/storage/fake_store.h"

namespace muster {

// The history checker. It runs a job's tasks, a coordinator's part, the network and real engines in
// one thread and by a seed, so that every history can be repeated.
//
// Tasks pull, push, close and take cuts as real ones do, over one stream per server. The network
// delivers each stream in order but streams in any order, loses streams with what is on them, loses
// answers, and delivers copies of old messages at any later time. Tasks die and are respawned with
// a higher incarnation. Disks of logs fail for a while. Servers die at named points of their write
// path, with or without what they had not synced, and come back with their disks; without
// durability the job then goes back to its last checkpoint under a higher generation.
//
// All slots take cuts, which are written, in full or as deltas, while the tasks go on; slot 0
// commits one when the files of all partitions are there.
//
// Every answer is checked when it arrives; a job restored from each checkpoint against exactly the
// contributions before its clock; the final values against the sum of all contributions.
class HistoryWorld {
 public:
  // Values by partition, version, and whether they are dense.
  using Versions = std::map<std::tuple<uint32_t, uint64_t, bool>, HistoryWorkload::Values>;

  struct Options {
    HistoryWorkload::Options workload;
    uint64_t seed = 0;
    uint32_t servers = 2;
    // Number of each kind: broken streams, respawned tasks, dead servers, failing disks.
    int faults = 3;
    // Values that the first run saw and later ones must see, if not known otherwise. May be null.
    Versions* versions = nullptr;
  };

  // Counts of what happened, so that a test can tell whether it has tested anything.
  struct Tally {
    int server_crashes = 0;
    int disk_failures = 0;
    int rollbacks = 0;
    int respawns = 0;
    int repeats_found_applied = 0;
    int ghosts_fenced = 0;
    uint64_t largest_lag = 0;
    uint64_t most_rows_on_disk = 0;
    int checkpoints = 0;
    int deltas = 0;
    // Files written as deltas; other files of a delta were written whole after a crash.
    int delta_files = 0;
    // Cuts that were lost with a server before their file was durable.
    int cuts_lost = 0;
    // Contributions to a cut's clock or later that were acknowledged before its files were.
    int pushes_beside_writes = 0;
    // Answers and checkpoints that told of a loss scale.
    int loss_scales_told = 0;
    int loss_scales_kept = 0;
  };

  explicit HistoryWorld(Options options);

  // Runs the job to its end. INTERNAL names the first thing that is not as it must be.
  absl::Status Run();

  const Tally& tally() const { return tally_; }

 private:
  struct Server {
    std::vector<uint32_t> partitions;
    std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
    FakeLogFileSystem files;
    TaskQueue executor;
    // Runs the writing of cut files.
    TaskQueue file_executor;
    std::unique_ptr<ShardEngine> engine;
    // Point at which to crash, and how many passes of that point from now.
    std::string crash_point;
    int crash_after = 0;
    bool crashed = false;
    // Operations of the log's disk that will fail.
    int disk_failures = 0;
    // Generation under which its tables were opened last.
    uint64_t opened_generation = 0;
  };

  struct Message {
    v1::ExchangeRequest request;
    Payload payload;
    // True if the task goes on without the answer.
    bool aside = false;
  };

  struct Answer {
    uint32_t slot = 0;
    uint32_t server = 0;
    // Number of the stream that the answer came over.
    uint64_t stream = 0;
    v1::ExchangeRequest request;
    Payload request_payload;
    v1::ExchangeReply reply;
    Payload payload;
  };

  // State of a slot. kAwaitFiles waits for the files of the cut before, until another cut may
  // follow or the task may end.
  enum class Phase { kAwaitFiles, kCut, kPull, kPush, kDone };

  struct Slot {
    uint64_t incarnation = 1;
    uint64_t clock = 0;
    Phase phase = Phase::kCut;
    // Unanswered messages in order, messages on the wire, and number of the stream, by server.
    std::vector<std::deque<Message>> unanswered;
    std::vector<std::deque<Message>> wire;
    std::vector<uint64_t> stream;
    std::vector<bool> broken;
  };

  static constexpr int kFaultKinds = 4;

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  absl::Status Fail(const std::string& what) const;

  void StartServer(uint32_t server);
  bool PassCrashPoint(uint32_t server, absl::string_view point);
  absl::Status RunExecutor(uint32_t server);
  void RunQuietly(uint32_t server);
  absl::Status RestartServer(uint32_t server);
  absl::Status Rollback();

  absl::Status Event();
  absl::Status Fault();
  absl::Status DeliverMessage();
  absl::Status DeliverGhost();
  absl::Status DeliverAnswer();
  void Deliver(uint32_t server, const Message& message, uint64_t stream);

  void StartPhase(uint32_t slot, Phase phase);
  bool CutsAt(uint64_t clock) const;
  // Slot 0: has the cut that all have taken written.
  void WriteCut(uint64_t clock);
  absl::Status NextPhase(uint32_t slot);
  void Send(uint32_t slot, v1::ExchangeRequest request, Payload payload, bool aside = false);
  // Ends a stream; some of its messages may come later, as ghosts.
  void BreakStream(uint32_t slot, uint32_t server);
  absl::Status Reconnect(uint32_t slot, uint32_t server);
  // Starts the slot's task at the lowest clock that it has closed somewhere.
  absl::Status StartTask(uint32_t slot);
  // Opens the tables as the slot's task does.
  absl::StatusOr<v1::OpenTablesReply> OpenTables(uint32_t server, uint32_t slot);
  absl::Status Respawn(uint32_t slot);
  bool Finished() const;

  absl::Status CheckAnswer(const Answer& answer);
  // Checks the loss scale that an answer tells of at the clock that it was given at.
  absl::Status CheckLossScale(const Answer& answer);
  absl::Status CheckPull(const Answer& answer);
  absl::Status CheckClosed(const v1::OpenTablesReply& reply) const;
  absl::Status CheckValues(const v1::ExchangeRequest& pull, const Payload& payload,
                           const std::vector<uint64_t>& lowest,
                           const std::vector<uint64_t>& highest,
                           std::optional<uint64_t> version) const;
  absl::Status TakeCutAnswer(const Answer& answer);
  absl::Status CommitCheckpoint(uint64_t clock);
  // Checks that a job restored from the last checkpoint has exactly the contributions before it.
  absl::Status CheckCheckpoint();
  absl::Status CheckFinalValues();

  const Options options_;
  const HistoryWorkload workload_;
  std::mt19937_64 random_;
  // Option of the engines.
  uint64_t log_bytes_ = 0;
  MemoryStorage storage_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<Slot> slots_;
  std::vector<std::pair<uint32_t, Message>> ghosts_;
  std::vector<Answer> answers_;

  uint64_t generation_ = 1;
  uint64_t next_request_id_ = 1;
  uint64_t next_stream_ = 1;
  int faults_left_[kFaultKinds] = {};
  // Error that a ghost's answer showed.
  absl::Status ghost_failure_;
  // Number of clocks, by slot, of which contributions may be anywhere.
  std::vector<uint64_t> reached_;
  uint64_t start_clock_ = 0;
  // The cut whose files slot 0 waits for, the last one that it had waited for, and the last one
  // that this task of it committed.
  std::optional<uint64_t> writing_;
  std::optional<uint64_t> writing_done_;
  std::optional<uint64_t> base_;
  // Last complete checkpoint, and files of cuts by (clock, partition).
  uint64_t checkpoint_clock_ = 0;
  std::string checkpoint_folder_;
  std::map<std::pair<uint64_t, uint32_t>, v1::ExchangeReply> cuts_;
  // Clocks whose close was acknowledged in this generation, and the highest incarnation that was
  // let in, by (partition, slot).
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> acknowledged_closed_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> acknowledged_incarnation_;
  Tally tally_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_HISTORY_HISTORY_WORLD_H_
