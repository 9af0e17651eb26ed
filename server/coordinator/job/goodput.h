#ifndef MUSTER_SERVER_COORDINATOR_JOB_GOODPUT_H_
#define MUSTER_SERVER_COORDINATOR_JOB_GOODPUT_H_

#include <cstdint>

#include "proto/job_record.pb.h"
#include "proto/status.pb.h"

namespace muster {

// Notes in `after` when its state began. If `before` is a started job that was not RUNNING, and the
// state ends now, the time is added to stopped_seconds.
void AddStoppedTime(const v1::JobRecord& before, int64_t now_unix_ms, v1::JobRecord& after);

// Returns how the time of a started job was spent up to now or its end; `progress` is the newest.
// Tasks tell how long steps, evaluations and checkpoints took. A step in which a task waited for a
// lost server lasted as long as that was away: so the time in which the job was not RUNNING is
// taken off its steps.
v1::Goodput GoodputOf(const v1::JobRecord& record, const v1::ProgressRecord& progress,
                      int64_t now_unix_ms);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_GOODPUT_H_
