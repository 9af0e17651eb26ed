#ifndef MUSTER_SERVER_COORDINATOR_JOB_JOB_STATE_MACHINE_H_
#define MUSTER_SERVER_COORDINATOR_JOB_JOB_STATE_MACHINE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/status.pb.h"

namespace muster {

// The life of a job:
//
//   PENDING -> PLACING -> RUNNING -> SUCCEEDED
//                 |        ^   |
//                 v        |   v
//               RECOVERING ----+-> (RECOVERING)
//
// and from each of these four to FAILED and CANCELLED. A job whose tasks have all ended well needs
// no server, so it may succeed while it recovers from the loss of one. A PENDING job holds nothing,
// a PLACING job everything for the first time, a RECOVERING job what is left of it.

// Checks that the table allows the step. FAILED_PRECONDITION names the job and both states.
absl::Status CheckTransition(absl::string_view job_id, v1::JobState from, v1::JobState to);

// Returns whether nothing changes any more: SUCCEEDED, FAILED and CANCELLED.
bool IsFinal(v1::JobState state);

// Returns whether the job may hold slots and servers: PLACING, RUNNING and RECOVERING.
bool IsActive(v1::JobState state);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_JOB_STATE_MACHINE_H_
