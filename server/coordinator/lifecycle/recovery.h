#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_RECOVERY_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_RECOVERY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/cluster/placement.h"

namespace muster {

// Decides on recovery: pure functions of a job's record and the live daemons.
//
//   lost                        what happens
//   a worker, or a task         the slot's next incarnation runs on any free slot, in the same
//                               generation
//   a worker for whose slot     with min_workers, on servers: the others go on in the next
//   none is free                generation, with the tables in place (member_changes.h)
//   a task that joins again     with min_workers, by all-reduce: the others go on, whatever is
//                               wrong with it; another task is tried, later each time
//   the last replica, or any    as a server under CHECKPOINT (see round_record.h)
//   rank if its loss is final   (common/job/job_road.h, LossIsFinal)
//   a server, EVERY_PUSH        the job waits for that server, whose log holds its partitions;
//                               terms grow when it is back
//   its data folder, too        tasks find that the server has forgotten the job, or that its files
//                               are damaged; then as under CHECKPOINT
//   a server, CHECKPOINT        the next generation starts from the last checkpoint, on whatever
//                               servers live
//   a server before its tasks   as under CHECKPOINT: there is nothing to keep
//   have met
//   the checkpoint itself       it is noted as damaged, and the one before is taken; a job whose
//                               checkpoints are all damaged fails

// Roll-backs in a row, without getting further than ever before, that a job survives.
inline constexpr uint32_t kMaxRollBacks = 8;

// Failures in a row of one slot's own tasks, without progress in between, that a job survives.
inline constexpr uint32_t kMaxSlotFailures = 5;

struct Losses {
  // Slots whose daemon is gone or was replaced.
  std::vector<uint32_t> slots;
  // Servers that are gone, and servers that are back as another incarnation.
  std::vector<std::string> missing;
  std::vector<ServerIdentity> returned;

  bool any_server() const { return !missing.empty() || !returned.empty(); }
};
Losses FindLosses(const v1::JobRecord& record, const Membership& members);

// Returns whether the job survives the loss of a server in place, without going back.
bool ContinuesInPlace(const v1::JobRecord& record);

// Fences the slot's task and frees the slot. Its next task has a higher incarnation.
void LoseSlot(uint32_t slot, v1::JobRecord& record);

// Sets where the job's generation begins: at its last sound checkpoint, else where it was submitted
// to start from, else at its beginning.
void StartFromLast(v1::JobRecord& record);

// Notes the damage of the checkpoint that the present generation starts from. False: that
// checkpoint is not one of the job's own.
bool NoteDamage(const std::string& damage, v1::JobRecord& record);

// Takes the whole job back to where StartFromLast says, under the next generation, holding nothing.
void RollBack(v1::JobRecord& record);

// Counts a roll-back of a job whose slots had all closed `reached` clocks; call before RollBack.
// Returns the number in a row that closed no new clock and added no checkpoint.
uint32_t CountRollBack(uint64_t reached, v1::JobRecord& record);

// Returns whether the final checkpoint and the final evaluation are there, so that only the tasks'
// ends are missing. Such a job needs nothing more, whatever is lost.
bool IsComplete(const v1::JobRecord& record);

// Returns the clock at which a training job ends; 0 while it is not known.
uint64_t FinalClock(const v1::JobRecord& record);

// Returns whether another task may follow one that ended with this code; if not, the job fails.
bool MayRespawn(int code);

// Counts a failure of the slot's own task, which had last reported `clock`. Returns the number of
// failures without progress; a new checkpoint is progress, too.
uint32_t CountFailure(uint32_t slot, uint64_t clock, v1::JobRecord& record);

// Returns the wait before the next task: none after the first failure, then a quarter of a lease,
// doubling. So a lost server does not use up the slot's chances before its lease ends.
absl::Duration RespawnDelay(uint32_t failures, absl::Duration lease);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_RECOVERY_H_
