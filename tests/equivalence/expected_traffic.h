#ifndef MUSTER_TESTS_EQUIVALENCE_EXPECTED_TRAFFIC_H_
#define MUSTER_TESTS_EQUIVALENCE_EXPECTED_TRAFFIC_H_

#include "proto/job.pb.h"

namespace muster {

// Trains a job on its road, without evaluations, and expects each slot's bytes along each axis to
// be those that are predicted (common/plan/calls/step_traffic.h), and its calls in each group to be
// those that are recorded (job_calls.h), in order and size, but for those of rows; and so its pulls
// and pushes, if it trains on servers, between the same units that it acquires.
void ExpectPredictedTraffic(const v1::JobSpec& job);

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_EXPECTED_TRAFFIC_H_
