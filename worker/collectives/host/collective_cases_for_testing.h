#ifndef MUSTER_WORKER_COLLECTIVES_HOST_COLLECTIVE_CASES_FOR_TESTING_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_COLLECTIVE_CASES_FOR_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/collectives/collective_call.h"

namespace muster {

// A collective call with inputs whose exact result is known. The same on every rank.
struct CollectiveCase {
  Collective kind = Collective::kAllReduce;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  // Elements of each slice. If unequal, slice i has 0, count/2 or count elements, by i.
  size_t count = 0;
  bool unequal = false;
  bool in_place = false;
  bool misaligned = false;
  bool deterministic = false;
  int root = 0;
  // Seed of the inputs.
  uint64_t seed = 0;

  std::string ToString() const;
};

constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                       Collective::kAllGather, Collective::kBroadcast,
                                       Collective::kReduce,    Collective::kAllToAll,
                                       Collective::kBarrier};
constexpr DType kDTypes[] = {DType::kF32,   DType::kF64,   DType::kF16,  DType::kBf16,
                             DType::kInt32, DType::kInt64, DType::kUint8};
constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kAvg, Reduction::kMin,
                                     Reduction::kMax, Reduction::kProd};

bool Reduces(Collective kind);

// One rank's part of a case: its filled memory, and the result that must stand there in the end.
// Memory is kept between cases.
class CaseRunner {
 public:
  CaseRunner(int rank, int size) : rank_(rank), size_(size) {}

  // Returns the call to make. The call uses `memory`, in place only, or else this object's memory,
  // which stays valid until the next Prepare.
  CollectiveCall Prepare(const CollectiveCase& c, std::byte* memory = nullptr);
  // Returns what is wrong; empty if the output is right and nothing beside it was written.
  std::string Check() const;

 private:
  std::vector<size_t> Counts(bool of_sender) const;

  const int rank_;
  const int size_;
  CollectiveCase case_;
  std::vector<size_t> counts_;
  std::vector<size_t> send_counts_;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  const std::byte* output_ = nullptr;
  std::vector<std::byte> expected_;
  bool guarded_ = false;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_COLLECTIVE_CASES_FOR_TESTING_H_
