#ifndef MUSTER_COMMON_SEARCH_TRIAL_JOB_H_
#define MUSTER_COMMON_SEARCH_TRIAL_JOB_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/search.pb.h"

namespace muster {

// Writes a value into a field of a job, by the field's own type (AssignField).
// InvalidArgument, beginning with `origin`: the job has no
// such field (names the nearest one), or the value is none of its type.
absl::Status ApplyDraw(const v1::Draw& draw, const std::string& origin, v1::JobSpec& job);

// A job that a trial is to have.
struct TrialJob {
  std::string search_id;
  // Counts trials from 1.
  uint64_t trial = 0;
  // Counts the trial's jobs from 0.
  int rung = 0;
  // Id of the trial's job at the rung before; empty at rung 0.
  std::string previous_job;
};

// Returns the specification of a trial's job: the search's job with the trial's draws, named
// NAME-TRIAL, with the label `search`. Where a search has rungs (HasRungs), the job ends with its
// rung, a schedule that falls towards the end does so at the last rung's step in every rung, and
// from rung 1 on the job resumes the last checkpoint of the job before. InvalidArgument as above.
absl::StatusOr<v1::JobSpec> SpecOfTrial(const v1::SearchSpec& spec,
                                        const google::protobuf::RepeatedPtrField<v1::Draw>& draws,
                                        const TrialJob& of);

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_TRIAL_JOB_H_
