#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_LEFT_WORKERS_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_LEFT_WORKERS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job_record.pb.h"

namespace muster {

// The workers that a job has left, and takes no slot of again, whatever incarnation their daemons
// have: because they computed wrong bits (JobSpec.verify_every), or stayed slow (replace_slow).
// Placement passes over them (SlotDemandOf); what becomes of slots that the job has there already
// is for the caller. A job that goes on from this one's checkpoint knows nothing of them.

// Returns whether the job has left the worker.
bool HasLeft(const v1::JobRecord& record, absl::string_view worker_id);

// Returns the slots that the job still holds on workers that it has left.
std::vector<uint32_t> SlotsOnLeftWorkers(const v1::JobRecord& record);

// Notes that the job leaves the worker. Nothing changes if it has left it before: the first reason
// stays.
void Leave(v1::JobRecord& record, absl::string_view worker_id, absl::string_view reason,
           int64_t unix_ms);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_LEFT_WORKERS_H_
