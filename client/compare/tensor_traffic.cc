#include "client/compare/tensor_traffic.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "client/compare/data_rank_traffic.h"
#include "common/base/round_up.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/local_tensors.h"
#include "common/partition/stage_holding.h"
#include "common/partition/unit_places.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/plan/size/model_size.h"
#include "common/step/stage_spec.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Floats that a rank tells of a token's logits (SoftmaxPart in common/compute/ops.h).
constexpr uint64_t kLossFloats = 3;

uint64_t MicroBatches(const v1::JobSpec& spec) { return std::max(1u, spec.micro_batches()); }

// The calls of one tensor group in a step.
class TensorCalls {
 public:
  TensorCalls(absl::Span<const TensorSpec> tensors, const v1::JobSpec& spec,
              const ModelDivision& division, int stage)
      : tensors_(tensors),
        spec_(spec),
        division_(division),
        stage_(stage),
        ranks_(division.mesh.size(Axis::kTensor)) {}

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
      for (const SharedElements& shared : PartialElements(tensor, DividesTokens(spec_))) {
        elements[{tensor.unit, shared.ranks}] += shared.end - shared.begin;
      }
    }
    const StageHolding holding = HoldingOfStage(ZeroStage(spec_));
    const bool every_time =
        holding.gradients == UnitPlaces::Holding::kInFlight || HoldsUnitsInFlight(spec_);
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

  bool Has(uint64_t unit) const { return division_.StageOf(static_cast<int>(unit)) == stage_; }

  void AddTransformer(uint64_t examples, uint64_t micro_batches) {
    const TransformerSize size = SizeOfTransformer(spec_.model().transformer(), {});
    const DType type = ActivationType(spec_.compute());
    const bool again = ResolveRecompute(spec_.compute()) == Recompute::kFull;
    const bool split =
        division_.stages() > 1 && ShapeOfStages(spec_).order == StageOrder::kZeroBubble;
    const uint64_t N = examples * size.T;
    uint64_t blocks = 0;
    for (uint64_t l = 0; l < size.layers; ++l) blocks += Has(1 + l) ? micro_batches : 0;
    const uint64_t embeddings = Has(0) ? micro_batches : 0;
    const uint64_t heads = Has(1 + size.layers) ? micro_batches : 0;
    if (DividesTokens(spec_)) {
      const uint64_t rows = CeilDivide<uint64_t>(N, ranks_) * size.C;
      const uint64_t gathers = 6 + (again ? 2 : 0) + (split ? 2 : 0);
      Add(Collective::kAllGather, type, rows, blocks * gathers + heads);
      Add(Collective::kReduceScatter, type, rows, blocks * (again ? 5 : 4) + heads);
      Add(Collective::kReduceScatter, DType::kF32, rows, embeddings);
      Add(Collective::kAllGather, DType::kF32, rows, embeddings);
    } else {
      Add(Collective::kAllReduce, type, N * size.C, blocks * (again ? 5 : 4) + heads);
      Add(Collective::kAllReduce, DType::kF32, N * size.C, embeddings);
    }
    // However many tokens have their logits at a time.
    Add(Collective::kAllGather, DType::kF32, N * kLossFloats, heads);
  }

  void AddPerceptron(uint64_t examples, uint64_t micro_batches) {
    for (const TensorSpec& tensor : tensors_) {
      const std::vector<int64_t>& shape = GlobalShape(tensor);
      if (tensor.placement.kind != Placement::Kind::kShard || shape.size() != 2) continue;
      if (!Has(tensor.unit)) continue;
      const bool by_inputs = tensor.placement.dimension == 1;
      if (!by_inputs && tensor.unit == 0) continue;
      Add(Collective::kAllReduce, DType::kF32, examples * shape[by_inputs ? 0 : 1], micro_batches);
    }
  }

  const absl::Span<const TensorSpec> tensors_;
  const v1::JobSpec& spec_;
  const ModelDivision& division_;
  const int stage_;
  const uint32_t ranks_;
  // The calls of all ranks, with the elements of a slice or of a sum.
  std::map<std::pair<Collective, DType>, CallSizes> calls_;
  // Sums over neighbours, by their number.
  std::map<int, CallSizes> shared_;
};

// Returns the traffic of each rank of a tensor group whose data rank has so many examples.
std::vector<WorkerTraffic> GroupTraffic(TensorCalls calls, const v1::JobSpec& spec,
                                        AllReduceWay way, uint64_t examples) {
  ForEachMicroBatchSize(spec, examples,
                        [&calls](uint64_t each, uint64_t count) { calls.AddPasses(each, count); });
  calls.AddSharedGradients();
  return calls.Bytes(way);
}

}  // namespace

std::vector<WorkerTraffic> PredictTensorTraffic(absl::Span<const TensorSpec> tensors,
                                                const v1::JobSpec& spec,
                                                const ModelDivision& division, int stage,
                                                AllReduceWay way) {
  if (division.mesh.size(Axis::kTensor) == 1)
    return std::vector<WorkerTraffic>(SizeAlong(kDataAxes, spec));
  const TensorCalls none(tensors, spec, division, stage);
  return TrafficOfDataRanks(
      spec, [&](uint64_t examples) { return GroupTraffic(none, spec, way, examples); });
}

WorkerTraffic PredictMeanTensorTraffic(absl::Span<const TensorSpec> tensors,
                                       const v1::JobSpec& spec, const ModelDivision& division,
                                       int stage, AllReduceWay way) {
  if (division.mesh.size(Axis::kTensor) == 1) return {};
  const TensorCalls none(tensors, spec, division, stage);
  return MeanTrafficOfDataRanks(
      spec, [&](uint64_t examples) { return GroupTraffic(none, spec, way, examples); });
}

}  // namespace muster
