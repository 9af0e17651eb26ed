#include "client/compare/traffic_prediction.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "client/compare/pipeline_traffic.h"
#include "client/compare/tensor_traffic.h"
#include "common/base/status_macros.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/dense_layout.h"
#include "common/partition/local_tensors.h"
#include "common/partition/model_units.h"
#include "common/partition/pulled_types.h"
#include "common/partition/schema.h"
#include "common/partition/served_layout.h"
#include "common/partition/shard_layout.h"
#include "common/partition/stage_holding.h"
#include "common/partition/unit_gathers.h"
#include "common/partition/unit_places.h"
#include "common/partition/wire_dtype.h"
#include "common/plan/device/device_memory_layout.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "proto/status.pb.h"
#include "worker/collectives/collective_call.h"
#include "worker/strategy/group/gradients/bucket_plan.h"

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
  const int S = static_cast<int>(SizeAlong(Axis::kShard, spec));
  const bool deterministic = SumsInRankOrder(spec);
  const int micro_batches = static_cast<int>(std::max(1u, spec.micro_batches()));
  const ShardLayout shards(layout, S);
  const UnitPlaces places(shards, tensors, *holding.weights, UnitPlaces::Content::kWeights,
                          KeptGatheredBytes(spec));
  const std::vector<int> gathers =
      GathersOfStep(std::max(1, UnitCount(tensors)), places, micro_batches);

  ShardedCalls calls;
  calls.group = {S, way, deterministic};
  calls.replicas = {static_cast<int>(SizeAlong(kDataAxes, spec)) / S, way, deterministic};
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
  const auto ranks = static_cast<int>(SizeAlong(kDataAxes, spec));
  if (ZeroStage(spec) == 0) {
    MUSTER_ASSIGN_OR_RETURN(
        const CallSizes sizes,
        BucketSizes(schema, {tensors.begin(), tensors.end()}, spec.update(), way));
    return AllReduceBytes(sizes, wire, {ranks, way, SumsInRankOrder(spec)});
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
    const auto ranks = static_cast<int>(SizeAlong(kDataAxes, spec));
    return MeanAllReduceBytes(sizes, wire, {ranks, way, SumsInRankOrder(spec)});
  }
  MUSTER_ASSIGN_OR_RETURN(const ShardedCalls calls, CallsOfShards(schema, tensors, spec, way));
  return calls.GroupBytes(wire) + MeanAllReduceBytes(calls.sums, wire, calls.replicas);
}

// What one of the ranks that compute a model together exchanges with servers in a step.
struct ServedRank {
  WorkerTraffic traffic;
  // The part of it that comes from each partition.
  std::vector<double> pulled;
};

// Returns the ranks of a data rank, stage by stage.
absl::StatusOr<std::vector<ServedRank>> ServedRanks(v1::TablesSchema schema,
                                                    const v1::JobSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(const DType wire, WireDType(spec.update().wire()));
  schema.set_tensor_ranks(SizeAlong(Axis::kTensor, spec));
  MUSTER_ASSIGN_OR_RETURN(const ServedTensors served, ServedFromSchema(schema));
  const bool as_f32 = spec.compute().device() == v1::ComputeSpec::CUDA;
  const size_t n = served.tensors.size() / served.ranks();
  std::vector<ServedRank> ranks(served.ranks());
  for (int r = 0; r < served.ranks(); ++r) {
    ServedRank& rank = ranks[r];
    rank.pulled.resize(std::max(1u, schema.partitions()));
    const std::vector<DType> types =
        PulledTypes(absl::MakeConstSpan(served.tensors).subspan(r * n, n));
    const DenseLayout layout = LayoutOfRank(served, r);
    for (const DenseLayout::Block& block : layout.blocks()) {
      const DType type = as_f32 || wire != DType::kF32 ? wire : types[block.pieces[0].tensor];
      const auto bytes = static_cast<double>(block.elements() * SizeOf(type));
      rank.pulled[block.partition] += bytes;
      rank.traffic.received += bytes;
      if (!block.repeated)
        rank.traffic.sent += static_cast<double>(block.elements() * SizeOf(wire));
    }
  }
  return ranks;
}

// Returns how the job's ranks divide the model.
ModelDivision DivisionOfJob(const v1::TablesSchema& schema, const v1::JobSpec& spec) {
  return DivisionOf(schema, MeshOf(spec));
}

// Returns the tensors of a stage's first rank.
absl::StatusOr<std::vector<TensorSpec>> TensorsOfStage(absl::Span<const TensorSpec> tensors,
                                                       const ModelDivision& division, int stage) {
  return LocalTensors(tensors, division, RanksOfStage(division.mesh, stage)[0]);
}

// Adds what ranks that compute a model together send one another, and sums all parts.
absl::Status AddActivations(absl::Span<const TensorSpec> tensors, const v1::JobSpec& spec,
                            const ModelDivision& division, AllReduceWay way,
                            PredictedTraffic& traffic) {
  for (int stage = 0; stage < division.stages(); ++stage) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<TensorSpec> local,
                            TensorsOfStage(tensors, division, stage));
    const std::vector<WorkerTraffic> in_groups =
        PredictTensorTraffic(local, spec, division, stage, way);
    traffic.tensor.insert(traffic.tensor.end(), in_groups.begin(), in_groups.end());
    if (division.stages() == 1) break;
    MUSTER_ASSIGN_OR_RETURN(const std::vector<WorkerTraffic> between,
                            PredictStageTraffic(tensors, spec, division, stage));
    traffic.pipeline.insert(traffic.pipeline.end(), between.begin(), between.end());
  }
  traffic.pipeline.resize(traffic.tensor.size());
  for (size_t slot = 0; slot < traffic.workers.size(); ++slot) {
    traffic.workers[slot] += traffic.tensor[slot];
    traffic.workers[slot] += traffic.pipeline[slot];
  }
  return absl::OkStatus();
}

// Returns the means of what ranks of a stage that compute a model together send one another.
absl::StatusOr<AxisTraffic> MeanActivations(absl::Span<const TensorSpec> tensors,
                                            const v1::JobSpec& spec, const ModelDivision& division,
                                            int stage, AllReduceWay way) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<TensorSpec> local,
                          TensorsOfStage(tensors, division, stage));
  AxisTraffic traffic;
  traffic.tensor = PredictMeanTensorTraffic(local, spec, division, stage, way);
  if (division.stages() == 1) return traffic;
  MUSTER_ASSIGN_OR_RETURN(traffic.pipeline,
                          PredictMeanStageTraffic(tensors, spec, division, stage));
  return traffic;
}

}  // namespace

WorkerTraffic AxisTraffic::total() const {
  WorkerTraffic sum = data;
  sum += tensor;
  sum += pipeline;
  return sum;
}

absl::StatusOr<PredictedTraffic> PredictServerTraffic(
    const v1::TablesSchema& schema, absl::Span<const v1::PartitionPlacement* const> partitions,
    const v1::JobSpec& spec, AllReduceWay way) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<ServedRank> ranks, ServedRanks(schema, spec));
  const Mesh mesh = MeshOf(spec);
  PredictedTraffic traffic;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    traffic.workers.push_back(ranks[mesh.Position(rank, kModelAxes)].traffic);
  }
  MUSTER_RETURN_IF_ERROR(AddActivations(TablesFromSchema(schema).tensors, spec,
                                        DivisionOfJob(schema, spec), way, traffic));
  for (const v1::PartitionPlacement* placement : partitions) {
    double bytes = 0;
    for (const ServedRank& rank : ranks) bytes += rank.pulled[placement->partition()];
    for (const v1::Replica& replica : placement->replicas()) {
      if (replica.role() != v1::Replica::PRIMARY) continue;
      traffic.server_sent[replica.server_id()] += bytes * mesh.size(kDataAxes);
    }
  }
  return traffic;
}

absl::StatusOr<PredictedTraffic> PredictAllReduceTraffic(const v1::TablesSchema& schema,
                                                         const v1::JobSpec& spec,
                                                         AllReduceWay way) {
  const std::vector<TensorSpec> tensors = TablesFromSchema(schema).tensors;
  const ModelDivision division = DivisionOfJob(schema, spec);
  const Mesh mesh = MeshOf(spec);
  PredictedTraffic traffic;
  traffic.workers.resize(mesh.world_size());
  std::vector<WorkerTraffic> data;
  for (const std::vector<int>& group : mesh.Groups(kDataAxes)) {
    // The first rank of a layer has more than the others, which have equally many.
    if (mesh.Position(group[0], kLayerAxes) < 2) {
      MUSTER_ASSIGN_OR_RETURN(const std::vector<TensorSpec> local,
                              LocalTensors(tensors, division, mesh.Position(group[0], kModelAxes)));
      MUSTER_ASSIGN_OR_RETURN(data, DataTraffic(schema, local, spec, way));
    }
    for (size_t d = 0; d < group.size(); ++d) traffic.workers[group[d]] = data[d];
  }
  MUSTER_RETURN_IF_ERROR(AddActivations(tensors, spec, division, way, traffic));
  return traffic;
}

absl::StatusOr<std::vector<AxisTraffic>> PredictMeanServerTraffic(const v1::TablesSchema& schema,
                                                                  const v1::JobSpec& spec,
                                                                  AllReduceWay way) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<ServedRank> ranks, ServedRanks(schema, spec));
  const std::vector<TensorSpec> tensors = TablesFromSchema(schema).tensors;
  const ModelDivision division = DivisionOfJob(schema, spec);
  std::vector<AxisTraffic> stages;
  for (int stage = 0; stage < division.stages(); ++stage) {
    MUSTER_ASSIGN_OR_RETURN(stages.emplace_back(),
                            MeanActivations(tensors, spec, division, stage, way));
    std::vector<WorkerTraffic> with_servers;
    for (int rank : RanksOfStage(division.mesh, stage)) {
      with_servers.push_back(ranks[rank].traffic);
    }
    stages.back().data = MeanOf(with_servers);
  }
  return stages;
}

absl::StatusOr<std::vector<AxisTraffic>> PredictMeanAllReduceTraffic(const v1::TablesSchema& schema,
                                                                     const v1::JobSpec& spec,
                                                                     AllReduceWay way) {
  const std::vector<TensorSpec> tensors = TablesFromSchema(schema).tensors;
  const ModelDivision division = DivisionOfJob(schema, spec);
  std::vector<AxisTraffic> stages;
  for (int stage = 0; stage < division.stages(); ++stage) {
    MUSTER_ASSIGN_OR_RETURN(stages.emplace_back(),
                            MeanActivations(tensors, spec, division, stage, way));
    const std::vector<int> ranks = RanksOfStage(division.mesh, stage);
    const auto count = static_cast<double>(ranks.size());
    double sum = 0;
    for (size_t r = 0; r < std::min<size_t>(ranks.size(), 2); ++r) {
      MUSTER_ASSIGN_OR_RETURN(const std::vector<TensorSpec> local,
                              LocalTensors(tensors, division, ranks[r]));
      MUSTER_ASSIGN_OR_RETURN(const double mean, MeanDataBytes(schema, local, spec, way));
      sum += mean * (r == 0 ? 1 : count - 1);
    }
    stages.back().data = {sum / count, sum / count};
  }
  return stages;
}

}  // namespace muster
