#include "client/compare/tensor_traffic.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "common/base/round_up.h"
#include "common/mesh/data_ranks.h"
#include "common/mesh/tensor_ranks.h"
#include "common/mesh/zero.h"
#include "common/partition/local_tensors.h"
#include "common/partition/stage_holding.h"
#include "common/partition/unit_places.h"
#include "common/plan/model_size.h"
#include "common/plan/transformer_memory_plan.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"
#include "worker/data/sampling/shares.h"

namespace muster {
namespace {

// Floats that a rank tells of a token's logits (SoftmaxPart in common/compute/ops.h).
constexpr uint64_t kLossFloats = 3;

uint64_t MicroBatches(const v1::JobSpec& spec) { return std::max(1u, spec.micro_batches()); }

// The calls of one tensor group in a step.
class TensorCalls {
 public:
  TensorCalls(absl::Span<const TensorSpec> tensors, const v1::JobSpec& spec)
      : tensors_(tensors), spec_(spec), ranks_(TensorRanks(spec)) {}

  // Adds the calls of the passes of so many micro-batches with so many examples each.
  void AddPasses(uint64_t examples, uint64_t micro_batches) {
    if (micro_batches == 0) return;
    if (spec_.model().has_transformer()) {
      AddTransformer(examples, micro_batches);
    } else {
      AddPerceptron(examples, micro_batches);
    }
  }

  // Adds the sums of gradients of elements that ranks share, one call for each unit and number of
  // ranks.
  void AddSharedGradients() {
    std::map<std::pair<uint32_t, int>, uint64_t> elements;
    for (const TensorSpec& tensor : tensors_) {
      const bool replicated = tensor.placement.kind == Placement::Kind::kReplicate;
      if (!tensor.tied_to.empty() || (replicated && !DividesTokens(spec_))) continue;
      for (const SharedElements& shared : tensor.shared) {
        elements[{tensor.unit, shared.ranks}] += shared.end - shared.begin;
      }
    }
    const StageHolding holding = HoldingOfStage(ZeroStage(spec_));
    const bool every_time = holding.gradients == UnitPlaces::Holding::kInFlight;
    for (const auto& [group, count] : elements) {
      shared_[group.second][count] += every_time ? MicroBatches(spec_) : 1;
    }
  }

  // Returns the bytes that each rank of the group sends and receives.
  std::vector<WorkerTraffic> Bytes(AllReduceWay way) const {
    const CallGroup all = {static_cast<int>(ranks_), way};
    std::vector<WorkerTraffic> bytes(ranks_);
    for (const auto& [call, sizes] : calls_) {
      const auto& [kind, dtype] = call;
      if (kind == Collective::kAllReduce) {
        AddAllReduces(sizes, dtype, all, bytes);
      } else {
        const double slices = SliceBytes(kind, sizes, dtype, all);
        for (WorkerTraffic& rank : bytes) rank += {slices, slices};
      }
    }
    for (const auto& [ranks, sizes] : shared_) {
      AddAllReduces(sizes, DType::kF32, {ranks, way}, bytes);
    }
    return bytes;
  }

 private:
  // Adds all-reduces of groups of neighbours.
  static void AddAllReduces(const CallSizes& sizes, DType dtype, const CallGroup& group,
                            std::vector<WorkerTraffic>& ranks) {
    const std::vector<WorkerTraffic> bytes = AllReduceBytes(sizes, dtype, group);
    for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] += bytes[rank % bytes.size()];
  }

  void Add(Collective kind, DType dtype, uint64_t elements, uint64_t calls) {
    if (calls > 0) calls_[{kind, dtype}][elements] += calls;
  }

  void AddTransformer(uint64_t examples, uint64_t micro_batches) {
    const TransformerSize size = SizeOfTransformer(spec_.model().transformer(), {});
    const DType type = ActivationType(spec_.compute());
    const bool again = ResolveRecompute(spec_.compute()) == Recompute::kFull;
    const uint64_t N = examples * size.T;
    const uint64_t blocks = size.layers * micro_batches;
    if (DividesTokens(spec_)) {
      const uint64_t rows = CeilDivide<uint64_t>(N, ranks_) * size.C;
      Add(Collective::kAllGather, type, rows, blocks * (again ? 8 : 6) + micro_batches);
      Add(Collective::kReduceScatter, type, rows, blocks * (again ? 5 : 4) + micro_batches);
      Add(Collective::kReduceScatter, DType::kF32, rows, micro_batches);
      Add(Collective::kAllGather, DType::kF32, rows, micro_batches);
    } else {
      Add(Collective::kAllReduce, type, N * size.C, blocks * (again ? 5 : 4) + micro_batches);
      Add(Collective::kAllReduce, DType::kF32, N * size.C, micro_batches);
    }
    // However many tokens have their logits at a time.
    Add(Collective::kAllGather, DType::kF32, N * kLossFloats, micro_batches);
  }

  void AddPerceptron(uint64_t examples, uint64_t micro_batches) {
    for (const TensorSpec& tensor : tensors_) {
      const std::vector<int64_t>& shape = GlobalShape(tensor);
      if (tensor.placement.kind != Placement::Kind::kShard || shape.size() != 2) continue;
      const bool by_inputs = tensor.placement.dimension == 1;
      if (!by_inputs && tensor.unit == 0) continue;
      Add(Collective::kAllReduce, DType::kF32, examples * shape[by_inputs ? 0 : 1], micro_batches);
    }
  }

  const absl::Span<const TensorSpec> tensors_;
  const v1::JobSpec& spec_;
  const uint32_t ranks_;
  // The calls of all ranks, with the elements of a slice or of a sum.
  std::map<std::pair<Collective, DType>, CallSizes> calls_;
  // Sums over neighbours, by their number.
  std::map<int, CallSizes> shared_;
};

// Returns the traffic of each rank of a tensor group whose data rank has so many examples.
std::vector<WorkerTraffic> GroupTraffic(absl::Span<const TensorSpec> tensors,
                                        const v1::JobSpec& spec, AllReduceWay way,
                                        uint64_t examples) {
  TensorCalls calls(tensors, spec);
  const uint64_t micro_batches = MicroBatches(spec);
  const uint64_t larger = examples % micro_batches;
  calls.AddPasses(examples / micro_batches + 1, larger);
  calls.AddPasses(examples / micro_batches, micro_batches - larger);
  calls.AddSharedGradients();
  return calls.Bytes(way);
}

}  // namespace

std::vector<WorkerTraffic> PredictTensorTraffic(absl::Span<const TensorSpec> tensors,
                                                const v1::JobSpec& spec, AllReduceWay way) {
  if (TensorRanks(spec) == 1) {
    return std::vector<WorkerTraffic>(std::max(1u, spec.workers()));
  }
  std::vector<WorkerTraffic> workers;
  // By number of examples, of which there are at most two.
  std::map<uint64_t, std::vector<WorkerTraffic>> groups;
  for (uint32_t d = 0; d < DataRanks(spec); ++d) {
    const auto examples =
        static_cast<uint64_t>(ShareOf(spec.batch_size(), d, DataRanks(spec)).size());
    auto& group = groups[examples];
    if (group.empty()) group = GroupTraffic(tensors, spec, way, examples);
    workers.insert(workers.end(), group.begin(), group.end());
  }
  return workers;
}

WorkerTraffic PredictMeanTensorTraffic(absl::Span<const TensorSpec> tensors,
                                       const v1::JobSpec& spec, AllReduceWay way) {
  if (TensorRanks(spec) == 1) return {};
  const uint64_t data_ranks = DataRanks(spec);
  const uint64_t examples = spec.batch_size() / data_ranks;
  const uint64_t larger = spec.batch_size() % data_ranks;
  const auto of_all = [&](uint64_t share, uint64_t ranks) {
    WorkerTraffic sum = MeanOf(GroupTraffic(tensors, spec, way, share));
    sum *= static_cast<double>(ranks);
    return sum;
  };
  WorkerTraffic sum = of_all(examples, data_ranks - larger);
  if (larger > 0) sum += of_all(examples + 1, larger);
  sum.sent /= static_cast<double>(data_ranks);
  sum.received /= static_cast<double>(data_ranks);
  return sum;
}

}  // namespace muster
