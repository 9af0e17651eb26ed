#ifndef MUSTER_TESTS_EQUIVALENCE_SLOT_TRAINING_H_
#define MUSTER_TESTS_EQUIVALENCE_SLOT_TRAINING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/mesh/mesh.h"
#include "common/partition/tensor_spec.h"
#include "proto/job.pb.h"
#include "tests/equivalence/run_options.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/rank_engine.h"
#include "worker/strategy/strategy.h"

namespace muster {

// The training of one slot of a run, and what it comes to.

// A slot's strategy, and the ranks that compute the model together with this one.
struct RankStrategy {
  Strategy& strategy;
  ModelPeers peers;
};

// Returns what the slot has of the model's tensors.
std::vector<TensorSpec> TensorsOf(const v1::JobSpec& spec, uint32_t slot, const PreparedJob& job);

// Trains the slot to the end of the job, or until an error. Observes what the run's options say,
// poisons what is released, and fails the test if parameters change while they are in use. The log
// gets the task's lines.
absl::Status TrainSlot(const v1::JobSpec& spec, uint32_t slot, const RunOptions& run,
                       const PreparedJob& job, const RankStrategy& strategy,
                       CoordinatorClient& coordinator, std::function<void(absl::string_view)> log);

// Reads all that a slot has through the strategy, as a step at `clock` would. `tensors` are the
// slot's.
TrainedValues ReadValues(const PreparedJob& job, absl::Span<const TensorSpec> tensors,
                         uint64_t clock, Strategy& strategy,
                         const std::map<std::string, std::vector<uint64_t>>& keys);

// Sums and weights of evaluations, by clock.
using LossSums = std::map<uint64_t, std::pair<double, double>>;

// Adds what the slot has told the coordinator.
void AddEvaluations(const FakeCoordinatorClient& coordinator, LossSums& sums);

LossCurve Means(const LossSums& sums);

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_SLOT_TRAINING_H_
