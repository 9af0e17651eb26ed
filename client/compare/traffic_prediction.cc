#include "client/compare/traffic_prediction.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "client/compare/tensor_traffic.h"
#include "common/base/status_macros.h"
#include "common/mesh/data_ranks.h"
#include "common/mesh/tensor_ranks.h"
#include "common/mesh/zero.h"
#include "common/partition/dense_layout.h"
#include "common/partition/local_tensors.h"
#include "common/partition/model_units.h"
#include "common/partition/pulled_types.h"
#include "common/partition/schema.h"
#include "common/partition/shard_layout.h"
#include "common/partition/stage_holding.h"
#include "common/partition/unit_gathers.h"
#include "common/partition/unit_places.h"
#include "common/partition/wire_dtype.h"
#include "common/plan/device_memory_layout.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "proto/status.pb.h"
#include "worker/collectives/collective_call.h"
#include "worker/strategy/group/bucket_plan.h"

namespace muster {
namespace {

// Once for each prediction: a large model has a million blocks.
absl::StatusOr<DenseLayout> LayoutOf(const v1::TablesSchema& schema,
                                     absl::Span<const TensorSpec> tensors) {
  return DenseLayout::Create(
      tensors, {.block_bytes = schema.block_bytes(), .partitions = schema.partitions()});
}

absl::StatusOr<CallSizes> BucketSizes(const v1::TablesSchema& schema,
                                      std::vector<TensorSpec> tensors, const v1::UpdateSpec& update,
                                      AllReduceWay way) {
  if (way == AllReduceWay::kDevices) tensors = PaddedTensors(std::move(tensors));
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, LayoutOf(schema, tensors));
  CallSizes sizes;
  for (const GradientBucket& bucket :
       MakeBucketPlan(layout, tensors, BucketPlanOptionsOf(update))) {
    ++sizes[bucket.elements()];
  }
  return sizes;
}

DType WireOf(const v1::UpdateSpec& update) {
  return update.wire() == v1::UpdateSpec::BF16 ? DType::kBf16 : DType::kF32;
}

// The calls of a step under ZeRO.
struct ShardedCalls {
  CallGroup group;
  CallGroup replicas;
  // Sizes of slices, by compute type.
  std::map<DType, CallSizes> gathers;
  CallSizes scatters;
  // All-reduces between replicas.
  CallSizes sums;
  // Bytes of sums that a rank sends to the keeper of its copy and, with worker daemons of one size,
  // receives for the copy that it keeps.
  double copied = 0;

  // Returns the bytes that a rank sends, and receives, within its shard group.
  double GroupBytes(DType wire) const {
    double bytes = copied + SliceBytes(Collective::kReduceScatter, scatters, wire, group);
    for (const auto& [dtype, slices] : gathers) {
      bytes += SliceBytes(Collective::kAllGather, slices, dtype, group);
    }
    return bytes;
  }
};

absl::StatusOr<ShardedCalls> CallsOfShards(const v1::TablesSchema& schema,
                                           absl::Span<const TensorSpec> tensors,
                                           const v1::JobSpec& spec, AllReduceWay way) {
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, LayoutOf(schema, tensors));
  const StageHolding holding = HoldingOfStage(ZeroStage(spec));
  const int S = static_cast<int>(ShardGroupSize(spec));
  const bool deterministic = spec.update().deterministic();
  const int micro_batches = static_cast<int>(std::max(1u, spec.micro_batches()));
  const ShardLayout shards(layout, S);
  const UnitPlaces places(shards, tensors, *holding.weights, UnitPlaces::Content::kWeights,
                          KeptGatheredBytes(spec));
  const std::vector<int> gathers =
      GathersOfStep(std::max(1, UnitCount(tensors)), places, micro_batches);

  ShardedCalls calls;
  calls.group = {S, way, deterministic};
  calls.replicas = {static_cast<int>(DataRanks(spec)) / S, way, deterministic};
  if (spec.parallelism().zero().redundancy() > 0) {
    calls.copied = static_cast<double>(shards.slice_elements() * sizeof(float));
  }
  for (const ShardLayout::Part& part : shards.parts()) {
    calls.gathers[part.compute][part.slice] += gathers[part.unit];
    calls.scatters[part.slice] +=
        holding.gradients == UnitPlaces::Holding::kWhole ? 1 : micro_batches;
    ++calls.sums[part.slice];
  }
  return calls;
}

// Returns what the data ranks of one tensor coordinate, which have these tensors, send one another.
absl::StatusOr<std::vector<WorkerTraffic>> DataTraffic(const v1::TablesSchema& schema,
                                                       absl::Span<const TensorSpec> tensors,
                                                       const v1::JobSpec& spec, AllReduceWay way) {
  const DType wire = WireOf(spec.update());
  const auto ranks = static_cast<int>(DataRanks(spec));
  if (ZeroStage(spec) == 0) {
    MUSTER_ASSIGN_OR_RETURN(
        const CallSizes sizes,
        BucketSizes(schema, {tensors.begin(), tensors.end()}, spec.update(), way));
    return AllReduceBytes(sizes, wire, {ranks, way, spec.update().deterministic()});
  }
  MUSTER_ASSIGN_OR_RETURN(const ShardedCalls calls, CallsOfShards(schema, tensors, spec, way));
  const double in_group = calls.GroupBytes(wire);
  const std::vector<WorkerTraffic> replicas = AllReduceBytes(calls.sums, wire, calls.replicas);
  std::vector<WorkerTraffic> traffic;
  for (int rank = 0; rank < ranks; ++rank) {
    traffic.push_back(replicas[rank / calls.group.size]);
    traffic.back() += {in_group, in_group};
  }
  return traffic;
}

// Returns the mean of the bytes that each of these ranks sends, and receives.
absl::StatusOr<double> MeanDataBytes(const v1::TablesSchema& schema,
                                     absl::Span<const TensorSpec> tensors, const v1::JobSpec& spec,
                                     AllReduceWay way) {
  const DType wire = WireOf(spec.update());
  if (ZeroStage(spec) == 0) {
    MUSTER_ASSIGN_OR_RETURN(
        const CallSizes sizes,
        BucketSizes(schema, {tensors.begin(), tensors.end()}, spec.update(), way));
    const auto ranks = static_cast<int>(DataRanks(spec));
    return MeanAllReduceBytes(sizes, wire, {ranks, way, spec.update().deterministic()});
  }
  MUSTER_ASSIGN_OR_RETURN(const ShardedCalls calls, CallsOfShards(schema, tensors, spec, way));
  return calls.GroupBytes(wire) + MeanAllReduceBytes(calls.sums, wire, calls.replicas);
}

}  // namespace

absl::StatusOr<PredictedTraffic> PredictServerTraffic(
    const v1::TablesSchema& schema, absl::Span<const v1::PartitionPlacement* const> partitions,
    const v1::JobSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(const DType wire, WireDType(spec.update().wire()));
  const std::vector<TensorSpec> tensors = TablesFromSchema(schema).tensors;
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, LayoutOf(schema, tensors));
  const std::vector<DType> types = PulledTypes(tensors);
  const bool as_f32 = spec.compute().device() == v1::ComputeSpec::CUDA;
  const auto pulled_bytes = [&](const DenseLayout::Block& block) {
    const DType type = as_f32 || wire != DType::kF32 ? wire : types[block.pieces[0].tensor];
    return static_cast<double>(block.elements() * SizeOf(type));
  };
  WorkerTraffic worker;
  worker.sent = static_cast<double>(layout.elements() * SizeOf(wire));
  for (const DenseLayout::Block& block : layout.blocks()) worker.received += pulled_bytes(block);
  const uint32_t workers = std::max(1u, spec.workers());
  PredictedTraffic traffic;
  traffic.workers.assign(workers, worker);
  for (const v1::PartitionPlacement* placement : partitions) {
    double bytes = 0;
    for (uint32_t block : layout.partition_blocks(placement->partition())) {
      bytes += pulled_bytes(layout.blocks()[block]);
    }
    for (const v1::Replica& replica : placement->replicas()) {
      if (replica.role() != v1::Replica::PRIMARY) continue;
      traffic.server_sent[replica.server_id()] += bytes * workers;
    }
  }
  return traffic;
}

absl::StatusOr<PredictedTraffic> PredictAllReduceTraffic(const v1::TablesSchema& schema,
                                                         const v1::JobSpec& spec,
                                                         AllReduceWay way) {
  const std::vector<TensorSpec> tensors = TablesFromSchema(schema).tensors;
  const auto tensor_ranks = static_cast<int>(TensorRanks(spec));
  PredictedTraffic traffic;
  std::vector<WorkerTraffic> data;
  for (int r = 0; r < tensor_ranks; ++r) {
    // The first tensor rank has more than the others, which have equally many.
    if (r < 2) {
      MUSTER_ASSIGN_OR_RETURN(const std::vector<TensorSpec> local,
                              LocalTensors(tensors, {.tensor_ranks = tensor_ranks}, r));
      MUSTER_ASSIGN_OR_RETURN(data, DataTraffic(schema, local, spec, way));
      if (r == 0) traffic.workers = traffic.tensor = PredictTensorTraffic(local, spec, way);
    }
    for (size_t d = 0; d < data.size(); ++d) traffic.workers[d * tensor_ranks + r] += data[d];
  }
  return traffic;
}

absl::StatusOr<AxisTraffic> PredictMeanAllReduceTraffic(const v1::TablesSchema& schema,
                                                        const v1::JobSpec& spec, AllReduceWay way) {
  const std::vector<TensorSpec> tensors = TablesFromSchema(schema).tensors;
  const auto tensor_ranks = static_cast<int>(TensorRanks(spec));
  AxisTraffic traffic;
  double sum = 0;
  for (int r = 0; r < std::min(tensor_ranks, 2); ++r) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<TensorSpec> local,
                            LocalTensors(tensors, {.tensor_ranks = tensor_ranks}, r));
    if (r == 0) traffic.tensor = PredictMeanTensorTraffic(local, spec, way);
    MUSTER_ASSIGN_OR_RETURN(const double mean, MeanDataBytes(schema, local, spec, way));
    sum += mean * (r == 0 ? 1 : tensor_ranks - 1);
  }
  traffic.data = {sum / tensor_ranks, sum / tensor_ranks};
  return traffic;
}

}  // namespace muster
