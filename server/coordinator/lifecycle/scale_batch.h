#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_SCALE_BATCH_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_SCALE_BATCH_H_

#include <cstdint>

#include "proto/job_record.pb.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// Lets the batch follow the number of workers of a round that is about to open at `clock`
// (JobSpec.scale_batch): writes the decision and its event into the change. What a round decided
// that began later and whose replica was lost before a step gives way.
void ScaleBatch(uint32_t workers, const v1::RendezvousRecord& met, uint64_t clock,
                JobChange& change);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_SCALE_BATCH_H_
