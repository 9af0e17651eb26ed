#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_DIVERGENCE_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_DIVERGENCE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/job_record.pb.h"

namespace muster {

// Says what follows when a job's training loss is not finite, or jumps (JobSpec.divergence): pure
// functions of its record. The loss of step N, counted from 1, is that of the weights at clock
// N - 1, so only checkpoints of earlier clocks are good.

// Returns whether the job may go back for its loss once more.
bool MayReturn(const v1::JobRecord& record);

// Notes that the job's checkpoints of the weights with which step `step` was made, or of later
// ones, are from when the loss had risen: the job does not go back to them, and makes them again.
void NoteRisenLoss(uint64_t step, v1::JobRecord& record);

// Returns what is decided for the steps that are made again. `before` is the job's record before it
// went back, `back` after RollBack; `reached` is the last step that any slot has made, or tried to.
// The rate's factor falls for each return, also for those whose adjustments the roll-back removed.
v1::Adjustment AdjustmentOfReturn(const v1::JobRecord& before, const v1::JobRecord& back,
                                  uint64_t reached, absl::string_view why);

// Returns why a job that may not go back any more fails, and what to try.
std::string FailureAfterReturns(const v1::JobRecord& record, absl::string_view why);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_DIVERGENCE_H_
