#ifndef MUSTER_TESTS_GPU_TWO_ROADS_H_
#define MUSTER_TESTS_GPU_TWO_ROADS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "worker/collectives/communicator.h"
#include "worker/device/device_trainer_for_testing.h"

namespace muster {

// One small job, trained on devices down both roads: the same seed, batches and optimizer, so that
// what comes out must be the same. Weights are returned flat, as DenseLayout orders them.

inline constexpr int kTwoRoadsSlots = 2;
inline constexpr int kTwoRoadsSteps = 20;

// What every trainer of the job is made with; tests may choose the type of computation.
DeviceTrainerOptions TwoRoadsOptions();

// One process on the joined batch.
absl::StatusOr<std::vector<float>> TrainAlone(const DeviceTrainerOptions& options);

// One rank of kTwoRoadsSlots; `communicator` moves device memory (with an emulated device, the
// host's). Gradients are summed by all-reduce, and every rank runs the optimizer on its device.
absl::StatusOr<std::vector<float>> TrainByAllReduce(const DeviceTrainerOptions& options,
                                                    Communicator& communicator);

// The slots take turns on one device. Gradients go to a parameter server in this process, which
// runs the optimizer; weights come from it.
absl::StatusOr<std::vector<float>> TrainByServer(const DeviceTrainerOptions& options);

// |a - b| / |b|.
double WeightsDistance(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace muster

#endif  // MUSTER_TESTS_GPU_TWO_ROADS_H_
