#ifndef MUSTER_TESTS_HARNESS_ENDLESS_JOB_H_
#define MUSTER_TESTS_HARNESS_ENDLESS_JOB_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "tests/harness/process_cluster.h"
#include "tests/harness/safetensors_reader.h"

namespace muster {

// A job that trains as long as a test needs it: however fast or busy the machine is, no fault comes
// after its end. What it has come to is compared with a job that trains to there undisturbed.
//
// Asks for more steps than any test waits for, and a checkpoint each `checkpoint_steps`.
v1::JobSpec Endless(v1::JobSpec spec, uint64_t checkpoint_steps);

// Waits until an endless job runs: it has made steps, as its tasks have told, and a checkpoint.
absl::StatusOr<v1::JobStatus> AwaitRunning(ProcessCluster& cluster, const std::string& job_id);

// Waits until an endless job has trained on from now and has cut and committed a checkpoint since.
// Returns its status then.
absl::StatusOr<v1::JobStatus> AwaitCheckpointSince(ProcessCluster& cluster,
                                                   const std::string& job_id);

struct Weights {
  // Of the last checkpoint.
  uint64_t clock = 0;
  // The weights, and the averages if the job keeps some, as `average/NAME`.
  ExportedTensors disturbed;
  // Of a job like it at the same clock.
  ExportedTensors undisturbed;
};

// Returns the most that an element of one model differs from the other's; infinity if they do not
// have the same elements.
float MostApart(const ExportedTensors& a, const ExportedTensors& b);

// Cancels an endless job, and trains a job like it to the clock of its last checkpoint where
// nothing happens any more. With `scale_batch` the latter has all its workers, and the batches that
// were decided for the former.
absl::StatusOr<Weights> EndAndTrainUndisturbed(ProcessCluster& cluster, const std::string& job_id);

}  // namespace muster

#endif  // MUSTER_TESTS_HARNESS_ENDLESS_JOB_H_
