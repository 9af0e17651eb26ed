#ifndef MUSTER_TESTS_EQUIVALENCE_EXPECTED_TRAFFIC_H_
#define MUSTER_TESTS_EQUIVALENCE_EXPECTED_TRAFFIC_H_

#include "proto/job.pb.h"

namespace muster {

// Trains a dense job on its road, and expects each slot's bytes along each axis to be those that
// are predicted (client/compare/traffic_prediction.h).
void ExpectPredictedTraffic(const v1::JobSpec& job);

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_EXPECTED_TRAFFIC_H_
