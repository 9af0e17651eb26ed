#ifndef MUSTER_COMMON_PLAN_CALLS_CALL_BYTES_H_
#define MUSTER_COMMON_PLAN_CALLS_CALL_BYTES_H_

#include <cstdint>
#include <map>
#include <tuple>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/collectives/schedule.h"
#include "common/plan/calls/step_calls.h"

namespace muster {

// Payload bytes of a step that one worker sends and receives.
struct WorkerTraffic {
  double sent = 0;
  double received = 0;

  WorkerTraffic& operator+=(const WorkerTraffic& other) {
    sent += other.sent;
    received += other.received;
    return *this;
  }
  friend WorkerTraffic operator*(const WorkerTraffic& traffic, double factor) {
    return {traffic.sent * factor, traffic.received * factor};
  }
  friend bool operator==(const WorkerTraffic& a, const WorkerTraffic& b) = default;
};

// Returns the mean, or zeros for no workers.
WorkerTraffic MeanOf(absl::Span<const WorkerTraffic> workers);

// Transport between ranks that make calls together.
enum class AllReduceWay { kSharedMemory, kTcp, kDevices };

// Counts the bytes of calls, from the schedules by which ranks make them
// (common/collectives/schedule.h), each different call once: a large model's are of few sizes. Not
// thread-safe.
class CallBytes {
 public:
  explicit CallBytes(AllReduceWay way) : way_(way) {}

  // Returns what the rank at this position among the call's ranks moves; without a position the
  // mean over them, which takes no longer for many ranks than for two.
  WorkerTraffic Of(const StepCall& call, absl::optional<int> position);

 private:
  WorkerTraffic Count(const StepCall& call, absl::optional<int> position) const;
  Algorithm AlgorithmOf(const StepCall& call) const;

  const AllReduceWay way_;
  std::map<std::tuple<Collective, DType, uint64_t, int, bool, int>, WorkerTraffic> counted_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_CALLS_CALL_BYTES_H_
