#ifndef MUSTER_SERVER_COORDINATOR_JOB_TRAINING_DATA_H_
#define MUSTER_SERVER_COORDINATOR_JOB_TRAINING_DATA_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "proto/job_record.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

// The data are part of a job's state: weights, position and held-out examples mean something only
// with the data that they came from. Questions about them, as pure functions of a job's record.
//
//   a job                             has to find
//   that goes back                    what it trained on before
//   with resume_from, and the same    what that job trained on: the same words stand for the same
//   `data` as that job                data
//   with resume_from and other `data` whatever is there: somebody wants other data
//   with initial_weights              whatever is there: it begins afresh
//   … that only evaluates, and the    what that job held out
//   same `data`

// What the job trains on, or did before it went back; absent: no slot has said yet.
std::optional<v1::DataRecord> DataOf(const v1::JobRecord& record);

// Compares what a slot brings with what the job's slots agreed on in this generation, or with the
// data that the job has to find. FAILED_PRECONDITION, which ends the job: names both values of what
// differs, and what to do.
absl::Status CompareWithJob(const v1::RendezvousRequest& request, const v1::JobRecord& record);

// Lets a new job find the same data as `source`, if both name the same.
void ExpectDataOf(const v1::JobRecord& source, v1::JobRecord& record);

// Examples that the job has trained on by this clock, since the beginning of the first job where it
// goes on from another. REQUIRES: clock >= record.initial_clock().
uint64_t ExamplesSeen(const v1::JobRecord& record, uint64_t clock);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_TRAINING_DATA_H_
