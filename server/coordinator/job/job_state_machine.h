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
// no server any more, so it may succeed while it recovers from the loss of one. PENDING, PLACING
// and RECOVERING differ in what the job holds: nothing; everything, for the first time; what is
// left of it.

// Whether the table allows the step. FAILED_PRECONDITION names the job and both states.
absl::Status CheckTransition(absl::string_view job_id, v1::JobState from, v1::JobState to);

// SUCCEEDED, FAILED and CANCELLED: nothing changes any more.
bool IsFinal(v1::JobState state);

// PLACING, RUNNING and RECOVERING: the job may hold slots and servers.
bool IsActive(v1::JobState state);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_JOB_STATE_MACHINE_H_
