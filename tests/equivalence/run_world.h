#ifndef MUSTER_TESTS_EQUIVALENCE_RUN_WORLD_H_
#define MUSTER_TESTS_EQUIVALENCE_RUN_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "tests/equivalence/dying_strategy.h"
#include "tests/equivalence/in_process_servers.h"
#include "tests/equivalence/run_checkpoints.h"
#include "tests/equivalence/run_options.h"
#include "tests/equivalence/slot_training.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/strategy/group/served_group.h"
#include "worker/strategy/group/sharded_strategy.h"
#include "worker/strategy/servers/parameter_server_strategy.h"
#include "worker/strategy/strategy.h"

namespace muster {

// How a slot's task has ended: as its death says, or otherwise.
enum class TaskEnd { kDied, kFinished };

// This is what the slots of one run share: the job, its servers and checkpoints, and the results.
// Thread-safe.
class RunWorld {
 public:
  RunWorld(const v1::JobSpec& spec, const RunOptions& options, PreparedJob job);

  // Runs a function for each slot, on a thread of its own. Returns the results so far.
  RunResult ForEachSlot(const std::function<void(uint32_t slot)>& body);

  // Runs one task of a slot.
  using RunTask = std::function<TaskEnd(uint64_t incarnation, const absl::optional<Death>& death)>;

  // Runs the slot's tasks one after the other: those that are to die, and one that lives. Fails the
  // test if one never makes the call at which it is to die; then no other follows.
  void ForEachTask(uint32_t slot, const RunTask& run_task);

  v1::TaskOrder Order(uint32_t slot, uint64_t incarnation) const;

  // Return the strategy of a slot's task.
  std::unique_ptr<ParameterServerStrategy> OnServers(uint32_t slot, uint64_t incarnation,
                                                     ParameterServerStrategy::Options options = {});
  std::unique_ptr<ServedGroup> OnServersWithPeers(uint32_t slot, const v1::TaskOrder& order);
  std::unique_ptr<ShardedStrategy> ByAllReduce(uint32_t slot, uint64_t incarnation);

  absl::Status Train(uint32_t slot, const RankStrategy& strategy,
                     FakeCoordinatorClient& coordinator);

  void Log(absl::string_view line);

  // Keeps what the slot's last task, which has trained to the end, came to. `reader` holds the
  // values, all of them as f32.
  void Finish(uint32_t slot, const DyingStrategy& strategy, Strategy& reader,
              const FakeCoordinatorClient& coordinator);
  // Do the parts of it: keep the values, and the rest.
  void ReadTrained(uint32_t slot, Strategy& reader);
  void NoteRun(uint32_t slot, const DyingStrategy& strategy,
               const FakeCoordinatorClient& coordinator);

  std::vector<TrainedValues> trained();

  // Keeps the slot's collective calls so far.
  void NoteCalls(uint32_t slot, absl::Span<const FlightRecorder* const> groups);

  // Writes what the slot's state has of the dense weights into those of its group, whose ranks have
  // all of them together.
  void AddRank(uint32_t slot, const ShardedStrategy& strategy);

  // Expects that the slot reads what its group's ranks, now done, have. Gives it whole tensors, and
  // the f32 values that it reads only rounded.
  void TakeFromShards(uint32_t slot);

  // Gives each slot whole tensors, of which it has read its shares.
  void JoinShares();

 private:
  // Returns the way of a slot's task with that memory to servers.
  ShardRouterDependencies Routing(uint32_t slot, const v1::ShardMap& map,
                                  std::shared_ptr<RegisteredMemory> memory);
  // Returns the number of the group of ranks with all weights that the slot is in.
  int ReplicaOf(uint32_t slot) const;

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

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_RUN_WORLD_H_
