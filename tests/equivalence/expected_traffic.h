#ifndef MUSTER_TESTS_EQUIVALENCE_EXPECTED_TRAFFIC_H_
#define MUSTER_TESTS_EQUIVALENCE_EXPECTED_TRAFFIC_H_

#include <cstdint>

#include "common/partition/unit_pulls.h"
#include "proto/job.pb.h"

namespace muster {

// Trains a job on its road, without evaluations, and expects each slot's bytes along each axis to
// be those that are predicted (common/plan/calls/step_traffic.h), and its calls in each group to be
// those that are recorded (job_calls.h), in order and size, but for those of rows; and so its pulls
// and pushes, if it trains on servers, between the same units that it acquires. Another window than
// that of jobs must be so small that slots pull in another order.
void ExpectPredictedTraffic(const v1::JobSpec& job, uint64_t pull_window_bytes = kPullWindowBytes);

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_EXPECTED_TRAFFIC_H_
