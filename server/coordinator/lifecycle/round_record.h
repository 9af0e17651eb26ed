#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_RECORD_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_RECORD_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/optional.h"
#include "proto/job_record.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/job/rendezvous.h"

namespace muster {

// Pure functions of the record of a job that answer questions about its present round, if it trains
// in rounds (TrainsInRounds).
// Before the first round of a generation there are no members.

// Returns whether the slot's present task is a member of the present round.
bool IsMember(const v1::JobRecord& record, uint32_t slot);

// Returns whether the slot was a member of the last round.
bool WasMember(const v1::JobRecord& record, uint32_t slot);

// Returns whether all tasks of the round are still their slots' tasks, and none has come to meet
// again (`next` holds those that have). REQUIRES: `next` is the job's own.
bool RoundLasts(const v1::JobRecord& record, const Rendezvous& next);

// Returns whether some task of the round is not its slot's task any more.
bool HasLostTask(const v1::JobRecord& record);

// Returns whether the slot's task only wants to join a round that has enough tasks without it. A
// fault of such a task does not end the job.
bool CanDoWithout(const v1::JobRecord& record, uint32_t slot);

// Returns the slot whose task speaks for all: rank 0 of the round; on servers the first slot that
// trains.
uint32_t SpeakingSlot(const v1::JobRecord& record);

// Returns how many slots take part in evaluations: those of the round, or all.
uint32_t ReportingSlots(const v1::JobRecord& record);

// Returns the slots that train together: those of the round, those that the generation has on
// servers (JobRecord.member_slots), or all.
std::vector<uint32_t> TrainingSlots(const v1::JobRecord& record);

// Returns whether the generation has a task in the slot; false only where members change on
// servers.
bool Trains(const v1::JobRecord& record, uint32_t slot);

// Returns whether the generation goes on with an earlier one's tables, and its tasks have yet to
// find out at which clock.
bool TakesOver(const v1::JobRecord& record);

// Returns how many slots have a worker.
uint32_t PlacedSlots(const v1::JobRecord& record);

bool AnyDone(const v1::JobRecord& record);
// Returns whether all slots that train have ended well.
bool AllDone(const v1::JobRecord& record);

// Returns the clock at which a round that is about to open begins.
uint64_t BeginningOf(const Rendezvous::Round& next, const v1::JobRecord& record);
// Returns how many rounds in a row, with that one, begin no further on; at least 1.
uint32_t CountMeetings(const Rendezvous::Round& next, const v1::JobRecord& record);

// Returns what every task that meets is told, on either road.
v1::RendezvousReply MeetingReply(const v1::JobRecord& record);

// Returns what the tasks of a program's round were told; nullopt if the record does not have it, as
// in all other jobs. They begin where their orders say.
std::optional<v1::RendezvousReply> StoredRound(const v1::JobRecord& record);

// Returns the first slot that left a round that no other can follow; nullopt if no slot left, or
// another round can follow. None can follow once some slots have ended well, since these do not
// meet again, or if losses are final (LossIsFinal). In the latter case the round lasts until every
// slot has left it, since the last may end with the error that broke it. With
// min_workers slots also leave a round to meet newcomers; another can follow as long as none is
// lost. REQUIRES: as RoundLasts.
absl::optional<uint32_t> BrokeForGood(const v1::JobRecord& record, const Rendezvous& next);

// Returns whether losing the tasks of these slots takes the whole job back to its last checkpoint:
// no task of the round is left to give its replica to their successors, some have ended already, or
// none could give what is lost (LossIsFinal).
bool EndsGeneration(const v1::JobRecord& record, const std::vector<uint32_t>& lost);

// Returns whether this generation has made anything that starting it again would repeat.
bool HasAdvanced(const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_RECORD_H_
