#include "tests/equivalence/served_ranks_run.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "tests/equivalence/dying_strategy.h"
#include "tests/equivalence/meeting.h"
#include "tests/equivalence/run_world.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"
#include "worker/strategy/group/served_group.h"

namespace muster {
namespace {

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

// Runs one task of a slot, which meets the others as often as it takes. The hooks of a task that is
// to die count from the beginning of its round.
TaskEnd TrainInRounds(uint32_t slot, ServedGroup& group, const absl::optional<Death>& death,
                      ServedGroups& groups, Meeting& meeting, RunWorld& world) {
  groups.Add(group);
  const absl::Cleanup remove = [&] { groups.Remove(group); };
  while (true) {
    group.Leave();
    absl::StatusOr<Meeting::Place> place = meeting.Arrive(slot, group.replica_clock());
    EXPECT_EQ(place.status(), absl::OkStatus());
    if (!place.ok()) return TaskEnd::kFinished;
    FakeCoordinatorClient coordinator;
    absl::Status status = group.Join(std::move(place->communicator), place->source);
    if (status.ok()) {
      DyingStrategy dying(group.strategy(), death);
      status = world.Train(slot,
                           {dying,
                            {.tensor_group = group.tensor_group(),
                             .context_group = group.context_group(),
                             .expert_group = group.expert_group(),
                             .counting_group = group.counting_group(),
                             .stages = group.stage_group()}},
                           coordinator);
      if (dying.died()) {
        meeting.Kill(slot);
        groups.EndRound();
        return TaskEnd::kDied;
      }
      if (status.ok()) {
        world.NoteCalls(slot, group.recorders());
        world.NoteRun(slot, dying, coordinator);
      }
    }
    if (status.ok()) return TaskEnd::kFinished;
    const bool meets_again = absl::IsUnavailable(status) || absl::IsAborted(status);
    EXPECT_TRUE(meets_again) << "slot " << slot << ": " << status;
    if (!meets_again) meeting.Fail(slot, status);
    groups.EndRound();
    if (!meets_again) return TaskEnd::kFinished;
  }
}

}  // namespace

RunResult TrainServedRanks(const v1::JobSpec& spec, const RunOptions& options, PreparedJob job) {
  Meeting meeting(static_cast<int>(spec.workers()), {});
  RunWorld world(spec, options, std::move(job));
  ServedGroups groups;
  world.ForEachSlot([&](uint32_t slot) {
    world.ForEachTask(slot, [&](uint64_t incarnation, const absl::optional<Death>& death) {
      const v1::TaskOrder order = world.Order(slot, incarnation);
      const auto group = world.OnServersWithPeers(slot, order);
      return TrainInRounds(slot, *group, death, groups, meeting, world);
    });
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

}  // namespace muster
