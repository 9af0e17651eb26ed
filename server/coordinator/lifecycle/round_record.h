#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_RECORD_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_RECORD_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "proto/job_record.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/job/rendezvous.h"

namespace muster {

// Questions about a job that trains by all-reduce and its present round, as pure functions of its
// record. Before the first round of a generation there are no members.

// The slot's present task was given the present round.
bool IsMember(const v1::JobRecord& record, uint32_t slot);

// All tasks of the round are still their slots' tasks, and none has come to meet again (`next`
// holds those who have). REQUIRES: `next` is the job's own.
bool RoundLasts(const v1::JobRecord& record, const Rendezvous& next);

// The slot's task only wants to join a round that has enough without it: what is wrong with it is
// no reason to end the job.
bool CanDoWithout(const v1::JobRecord& record, uint32_t slot);

// The slot whose task speaks for all: rank 0 of the round; 0 on the other road.
uint32_t SpeakingSlot(const v1::JobRecord& record);

// Slots that take part in evaluations: those of the round, or all.
uint32_t ReportingSlots(const v1::JobRecord& record);

bool AnyDone(const v1::JobRecord& record);
// All slots that train have ended well.
bool AllDone(const v1::JobRecord& record);

// The clock of the replicas that a round which is about to open begins with.
uint64_t BeginningOf(const Rendezvous::Round& next, const v1::JobRecord& record);
// How many rounds in a row, that one included, begin no further on: 1 if the last one has made a
// step.
uint32_t CountMeetings(const Rendezvous::Round& next, const v1::JobRecord& record);

// What every task that meets is told, on either road.
v1::RendezvousReply MeetingReply(const v1::JobRecord& record);

// The slot that broke the round after some of it had ended well: these come to no other round, for
// which the rest would wait. REQUIRES: as RoundLasts.
absl::optional<uint32_t> BrokeAtItsEnd(const v1::JobRecord& record, const Rendezvous& next);

// Whether losing the tasks of these slots takes the whole job back to its last checkpoint: no task
// of the round is left to give its replica to their successors, some have ended already, or the
// round's servers hold what no replica has (hybrid).
bool LosesReplicas(const v1::JobRecord& record, const std::vector<uint32_t>& lost);

// Something was trained, or kept, in this generation that starting it once more would repeat.
bool HasAdvanced(const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_RECORD_H_
