#include "common/plan/calls/call_bytes.h"

namespace muster {
namespace {

// Returns how often all ranks together send the vector of an all-reduce: W times what one rank
// sends (common/collectives/schedule.h). A whole number, however the vector is divided.
double TimesSent(Algorithm algorithm, int ranks) {
  const double W = ranks;
  double cores = 1;
  double steps = 0;
  for (; 2 * cores <= W; cores *= 2) ++steps;
  // Ranks beyond a power of two leave their vector to another one, and get the sum back.
  const double folds = 2 * (W - cores);
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kDirect:
      return 2 * (W - 1);
    case Algorithm::kExchange:
      return W * (W - 1);
    case Algorithm::kDoubling:
      return cores * steps + folds;
    case Algorithm::kHalving:
      return 2 * (cores - 1) + folds;
    case Algorithm::kDissemination:
      break;
  }
  return 0;
}

}  // namespace

WorkerTraffic MeanOf(absl::Span<const WorkerTraffic> workers) {
  WorkerTraffic sum;
  if (workers.empty()) return sum;
  for (const WorkerTraffic& worker : workers) sum += worker;
  const auto n = static_cast<double>(workers.size());
  return {sum.sent / n, sum.received / n};
}

WorkerTraffic CallBytes::Of(const StepCall& call, absl::optional<int> position) {
  WorkerTraffic bytes;
  const auto elements = static_cast<double>(call.count * SizeOf(call.dtype));
  if (call.kind == Collective::kSend) {
    bytes.sent = elements;
  } else if (call.kind == Collective::kReceive) {
    bytes.received = elements;
  } else if (call.ranks > 1 && call.count > 0) {
    const auto [found, added] = counted_.try_emplace(
        {call.kind, call.dtype, call.count, call.ranks, call.deterministic, position.value_or(-1)});
    if (added) found->second = Count(call, position);
    bytes = found->second;
  }
  const auto ranks = static_cast<double>(call.divided);
  return {bytes.sent / ranks, bytes.received / ranks};
}

Algorithm CallBytes::AlgorithmOf(const StepCall& call) const {
  // By which NCCL's calls are counted, whatever NCCL chooses.
  if (way_ == AllReduceWay::kDevices) return Algorithm::kDirect;
  const uint64_t vector = call.count * (call.kind == Collective::kAllReduce ? 1 : call.ranks);
  return ChooseAlgorithm({.kind = call.kind,
                          .dtype = call.dtype,
                          .bytes = vector * SizeOf(call.dtype),
                          .size = call.ranks,
                          .same_machine = way_ == AllReduceWay::kSharedMemory,
                          .deterministic = call.deterministic});
}

WorkerTraffic CallBytes::Count(const StepCall& call, absl::optional<int> position) const {
  const auto element = static_cast<double>(SizeOf(call.dtype));
  const Algorithm algorithm = AlgorithmOf(call);
  if (!position.has_value() && call.kind == Collective::kAllReduce) {
    const double sent =
        TimesSent(algorithm, call.ranks) * static_cast<double>(call.count) * element / call.ranks;
    return {sent, sent};
  }
  // Slices of gathers and scatters are equal, so all ranks move the same.
  const Schedule schedule = MakeSchedule({.kind = call.kind,
                                          .algorithm = algorithm,
                                          .rank = position.value_or(0),
                                          .size = call.ranks,
                                          .count = call.count});
  return {static_cast<double>(SentElements(schedule)) * element,
          static_cast<double>(ReceivedElements(schedule, call.ranks)) * element};
}

}  // namespace muster
