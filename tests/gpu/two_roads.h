#ifndef MUSTER_TESTS_GPU_TWO_ROADS_H_
#define MUSTER_TESTS_GPU_TWO_ROADS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/runtime/device/device_rank_for_testing.h"

namespace muster {

// One small job, trained on devices down both roads: the same seed, batches and optimizer, so that
// what comes out must be the same. Weights are returned flat, tensor by tensor.

inline constexpr int kTwoRoadsSlots = 2;
inline constexpr int kTwoRoadsSteps = 20;

// Returns the job, computed in `type` of ComputeSpec, whose ranks by all-reduce divide what this
// ZeRO stage says.
v1::JobSpec TwoRoadsJob(const std::string& type, uint32_t stage = 0);
// Returns a job in f32 with a head of its own, whose ranks are the stages of a pipeline.
v1::JobSpec TwoStagesJob();

// One process on the joined batch.
absl::StatusOr<std::vector<float>> TrainAlone(const v1::JobSpec& spec);

// Trains as one rank of kTwoRoadsSlots. Gradients are summed by collective calls, and every rank
// runs the optimizer on its device. Under ZeRO stages matrices of 16-bit jobs come rounded. A stage
// of a pipeline returns its own tensors.
absl::StatusOr<std::vector<float>> TrainByAllReduce(const v1::JobSpec& spec,
                                                    DeviceRank::Place place);

// The slots take turns on one device. Gradients go to a parameter server in this process, which
// runs the optimizer; weights come from it.
absl::StatusOr<std::vector<float>> TrainByServer(const v1::JobSpec& spec);

// |a - b| / |b|.
double WeightsDistance(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace muster

#endif  // MUSTER_TESTS_GPU_TWO_ROADS_H_
