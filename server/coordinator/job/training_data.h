#ifndef MUSTER_SERVER_COORDINATOR_JOB_TRAINING_DATA_H_
#define MUSTER_SERVER_COORDINATOR_JOB_TRAINING_DATA_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/step/step_batches.h"
#include "proto/job_record.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

// The data are part of a job's state: weights, position and held-out examples mean something only
// with the data they came from. Pure functions of a job's record say which data a job has to find:
//
//   a job                             has to find
//   that goes back                    the data it trained on before
//   with resume_from, and the same    the data that job trained on: the same specification stands
//   `data` as that job                for the same data
//   with resume_from and other `data` any data: other data are wanted
//   with initial_weights              any data: it begins afresh
//   with initial_weights that only    the data that job trained on and held out
//   evaluates, and the same `data`

// Returns the data that the job trains on, or did before it went back; absent: not known yet.
std::optional<v1::DataRecord> DataOf(const v1::JobRecord& record);

// Compares the data that a slot found with the data that the job's slots agreed on in this
// generation, or else with the data that the job has to find. FAILED_PRECONDITION, which ends the
// job, names what differs, both values, and what to do.
absl::Status CompareWithJob(const v1::RendezvousRequest& request, const v1::JobRecord& record);

// Makes a new job require the data of `source`, if both name the same data.
void ExpectDataOf(const v1::JobRecord& source, v1::JobRecord& record);

// Returns the positions in the data at which the job began and those before it that it resumes, and
// at which these changed their batches, in order (StepBatches), up to the last at which the job
// passed over examples; empty if it resumes none and passed over none.
std::vector<DataPosition> PositionsOf(const v1::JobRecord& record);

// Returns the batches of the job's steps, as specified and decided so far.
StepBatches DecidedBatches(const v1::JobRecord& record);

// Says in the record of a new job that it resumes `source` at a clock, and which examples were seen
// by then. REQUIRES: clock >= source.initial_clock().
void SetPositions(const v1::JobRecord& source, uint64_t clock, v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_TRAINING_DATA_H_
