#ifndef MUSTER_CLIENT_COMPARE_DATA_RANK_TRAFFIC_H_
#define MUSTER_CLIENT_COMPARE_DATA_RANK_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/compare/worker_traffic.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Data ranks have at most two different numbers of examples of a step, and so of a micro-batch.
// These functions predict what follows from the number.

// Returns the traffic of the workers of one data rank that has so many examples of a step.
using TrafficOfExamples = absl::FunctionRef<std::vector<WorkerTraffic>(uint64_t examples)>;

// Returns the traffic of the workers of all data ranks, one data rank after another.
std::vector<WorkerTraffic> TrafficOfDataRanks(const v1::JobSpec& spec, TrafficOfExamples traffic);

// Returns the mean of TrafficOfDataRanks over the workers. Takes no longer for many data ranks than
// for two.
WorkerTraffic MeanTrafficOfDataRanks(const v1::JobSpec& spec, TrafficOfExamples traffic);

// Calls `visitor(examples, count)` for the micro-batches of a data rank that has so many examples
// of a step: `count` micro-batches have `examples` each.
void ForEachMicroBatchSize(const v1::JobSpec& spec, uint64_t examples,
                           absl::FunctionRef<void(uint64_t examples, uint64_t count)> visitor);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_DATA_RANK_TRAFFIC_H_
