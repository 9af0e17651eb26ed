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

// Decisions of recovery, as pure functions of a job's record and the live daemons.
//
//   lost                        what happens
//   a worker, or a task         the slot's next incarnation runs on any free slot, in the same
//                               generation
//   … that joins again         all-reduce with min_workers: whatever is wrong with it, the others
//   go
//                               on; another task is tried, later each time
//   … of the last replica       all-reduce, or hybrid and any of them: as a server, CHECKPOINT (see
//                               round_record.h)
//   a server, EVERY_PUSH        the job waits for that server, whose log holds its partitions;
//                               terms grow when it is back
//   … with its volume           tasks find that it has forgotten the job, or that its files are
//                               damaged: as CHECKPOINT
//   a server, CHECKPOINT        the next generation starts from the last checkpoint, on whatever
//                               servers live
//   a server, nothing open      as CHECKPOINT: there is nothing to keep
//   the checkpoint itself       it is noted as damaged, and the one before is taken; a job whose
//                               checkpoints are all damaged fails

// Roll-backs in a row that a job survives without getting further than it ever was.
inline constexpr uint32_t kMaxRollBacks = 8;

// Slots that can be lost to their tasks' own failures, without progress in between, before the job
// fails.
inline constexpr uint32_t kMaxSlotFailures = 5;

struct Losses {
  // Slots whose daemon is gone or was replaced.
  std::vector<uint32_t> slots;
  // Servers that are gone, and those that are back as another incarnation.
  std::vector<std::string> missing;
  std::vector<ServerIdentity> returned;

  bool any_server() const { return !missing.empty() || !returned.empty(); }
};
Losses FindLosses(const v1::JobRecord& record, const Membership& members);

// Whether the job outlives the loss of a server in place.
bool ContinuesInPlace(const v1::JobRecord& record);

// Fences the slot's task and frees the slot. Its next task runs under a higher incarnation.
void LoseSlot(uint32_t slot, v1::JobRecord& record);

// Where a generation of the job begins: its last sound checkpoint, else what it was submitted to
// start or go on from, else its beginning.
void StartFromLast(v1::JobRecord& record);

// Notes what is wrong with the checkpoint that the present generation starts from. False: it is
// none of the job's own.
bool NoteDamage(const std::string& damage, v1::JobRecord& record);

// Takes the whole job back to its last sound checkpoint (or its beginning), under the next
// generation, holding nothing.
void RollBack(v1::JobRecord& record);

// Counts a roll-back of a job whose slots all had closed `reached` clocks; to be called before
// RollBack. Returns how many there were in a row without progress: no clock was closed that had not
// been closed before, and no checkpoint was added.
uint32_t CountRollBack(uint64_t reached, v1::JobRecord& record);

// All is done but for the tasks' ends: final checkpoint and final evaluation are there. Such a job
// needs nothing more, whatever is lost.
bool IsComplete(const v1::JobRecord& record);

// The clock at which a training job ends; 0 while that is not known.
uint64_t FinalClock(const v1::JobRecord& record);

// Whether a task that ended with this code may be started again; if not, the job fails.
bool MayRespawn(int code);

// Counts a failure of the slot's own task, which had closed `clock` clocks; returns how many there
// were without progress.
uint32_t CountFailure(uint32_t slot, uint64_t clock, v1::JobRecord& record);

// How long to wait before the next task: none after the first failure, then a quarter of a lease,
// doubling. So the failures that a lost server causes before its lease ends do not use up the
// slot's chances.
absl::Duration RespawnDelay(uint32_t failures, absl::Duration lease);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_RECOVERY_H_
