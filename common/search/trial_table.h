#ifndef MUSTER_COMMON_SEARCH_TRIAL_TABLE_H_
#define MUSTER_COMMON_SEARCH_TRIAL_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/search/next_step.h"
#include "common/search/trial_job.h"
#include "proto/search.pb.h"

namespace muster {

// Returns the request id with which a trial's job is submitted. The same job always has the same
// one, so whoever submits it again after a crash gets the first job.
std::string TrialRequestId(const std::string& search_id, uint64_t trial, int rung);

// Returns the job that a step of the search needs. REQUIRES: `step` is the next step of the record
// (NextStep), of kind kBegin or kPromote.
TrialJob JobOfStep(const v1::SearchRecord& record, const SearchStep& step);

// Returns the draws of that job. REQUIRES: as above.
google::protobuf::RepeatedPtrField<v1::Draw> DrawsOfStep(const v1::SearchRecord& record,
                                                         const SearchStep& step);

// Records that the job of a step was submitted; a new trial enters the table with its draws.
// REQUIRES: as above.
void RecordJob(const SearchStep& step, const std::string& job_id, v1::SearchRecord& record);

// The end of a trial's job.
struct TrialEnd {
  // The clock that the job had reached.
  uint64_t last_step = 0;
  std::optional<double> objective;
  // The reason for which there is no objective.
  std::string failure;
};

// Records how a job ended, once: an end that is recorded already, or that of a job which the table
// does not have, changes nothing. An objective that is not finite is a failure. Returns whether the
// table changed.
bool RecordEnd(const std::string& job_id, const TrialEnd& end, v1::SearchRecord& record);

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_TRIAL_TABLE_H_
