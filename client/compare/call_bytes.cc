#include "client/compare/call_bytes.h"

#include "worker/collectives/schedule.h"

namespace muster {
namespace {

// Algorithm by which NCCL's calls are counted, whatever NCCL chooses.
constexpr Algorithm kOfDevices = Algorithm::kDirect;

// Returns the algorithm of a call over a vector of `elements`.
Algorithm AlgorithmFor(Collective kind, uint64_t elements, DType dtype, const CallGroup& group) {
  if (group.way == AllReduceWay::kDevices) return kOfDevices;
  return ChooseAlgorithm({.kind = kind,
                          .dtype = dtype,
                          .bytes = elements * SizeOf(dtype),
                          .size = group.size,
                          .same_machine = group.way == AllReduceWay::kSharedMemory,
                          .deterministic = group.deterministic});
}

// Returns how often all ranks together send the vector of an all-reduce: W times what one rank
// sends (worker/collectives/schedule.h). A whole number, however the vector is divided.
double TimesSent(Algorithm algorithm, int workers) {
  const double W = workers;
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

std::vector<WorkerTraffic> AllReduceBytes(const CallSizes& sizes, DType dtype,
                                          const CallGroup& group) {
  std::vector<WorkerTraffic> ranks(group.size);
  for (const auto& [elements, calls] : sizes) {
    const Algorithm algorithm = AlgorithmFor(Collective::kAllReduce, elements, dtype, group);
    for (int rank = 0; rank < group.size; ++rank) {
      const Schedule schedule = MakeSchedule({.kind = Collective::kAllReduce,
                                              .algorithm = algorithm,
                                              .rank = rank,
                                              .size = group.size,
                                              .count = elements});
      for (const Transfer& transfer : schedule.transfers) {
        if (transfer.kind != Transfer::Kind::kSend) continue;
        const auto bytes = static_cast<double>(transfer.count * SizeOf(dtype) * calls);
        ranks[rank].sent += bytes;
        ranks[transfer.peer].received += bytes;
      }
    }
  }
  return ranks;
}

double MeanAllReduceBytes(const CallSizes& sizes, DType dtype, const CallGroup& group) {
  double sent = 0;
  for (const auto& [elements, calls] : sizes) {
    const Algorithm algorithm = AlgorithmFor(Collective::kAllReduce, elements, dtype, group);
    sent +=
        TimesSent(algorithm, group.size) * static_cast<double>(elements * SizeOf(dtype) * calls);
  }
  return sent / group.size;
}

double SliceBytes(Collective kind, const CallSizes& slices, DType dtype, const CallGroup& group) {
  if (group.size == 1) return 0;
  double bytes = 0;
  for (const auto& [slice, calls] : slices) {
    const Schedule schedule =
        MakeSchedule({.kind = kind,
                      .algorithm = AlgorithmFor(kind, slice * group.size, dtype, group),
                      .rank = 0,
                      .size = group.size,
                      .count = slice});
    bytes += static_cast<double>(SentElements(schedule) * SizeOf(dtype) * calls);
  }
  return bytes;
}

}  // namespace muster
