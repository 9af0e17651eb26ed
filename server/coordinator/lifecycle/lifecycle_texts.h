#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_LIFECYCLE_TEXTS_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_LIFECYCLE_TEXTS_H_

#include <string>

#include "absl/time/time.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/job/rendezvous.h"

namespace muster {

// Texts of the events and messages that tell of a job's life.

// Names a status code, as in "UNAVAILABLE".
std::string CodeName(int code);
// Says what slots that have met do.
std::string DescribeMeeting(const v1::RendezvousRecord& met, const v1::JobSpec& spec);
// Says how many slots form the round.
std::string WhoMet(const Rendezvous::Round& next, const v1::JobRecord& record);
// Names the slots of a program whose processes have ended well; empty if there are none. What the
// others do may wait for them in vain.
std::string EndedBefore(const v1::JobRecord& record);
// Says where the present generation begins.
std::string StartOf(const v1::JobRecord& record);
// Says how many examples a job with backup workers has dropped; empty for other jobs.
std::string DroppedExamples(const v1::JobSpec& spec, const v1::ProgressRecord& progress);
// Says how long the job pauses before it goes on; empty if it does not.
std::string TellDelay(absl::Duration delay);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_LIFECYCLE_TEXTS_H_
