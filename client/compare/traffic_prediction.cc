#include "client/compare/traffic_prediction.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/mesh/data_ranks.h"
#include "common/mesh/zero.h"
#include "common/partition/dense_layout.h"
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
#include "worker/collectives/schedule.h"
#include "worker/strategy/group/bucket_plan.h"

namespace muster {
namespace {

// Once for each prediction: a large model has a million blocks.
absl::StatusOr<DenseLayout> LayoutOf(const v1::TablesSchema& schema,
                                     absl::Span<const TensorSpec> tensors) {
  return DenseLayout::Create(
      tensors, {.block_bytes = schema.block_bytes(), .partitions = schema.partitions()});
}

// The number of calls of each size, in elements. A large model's calls have few different sizes.
using CallSizes = std::map<uint64_t, uint64_t>;

absl::StatusOr<CallSizes> BucketSizes(const v1::TablesSchema& schema, const v1::UpdateSpec& update,
                                      AllReduceWay way) {
  std::vector<TensorSpec> tensors = TablesFromSchema(schema).tensors;
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

// Algorithm by which NCCL's calls are counted, whatever NCCL chooses.
constexpr Algorithm kOfDevices = Algorithm::kDirect;

// The ranks that make a call together, and how.
struct CallGroup {
  int size = 1;
  AllReduceWay way = AllReduceWay::kSharedMemory;
  bool deterministic = false;
};

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

// Returns the bytes that each rank of a group sends and receives in all-reduces of these sizes.
std::vector<WorkerTraffic> AllReduceBytes(const CallSizes& sizes, DType wire,
                                          const CallGroup& group) {
  std::vector<WorkerTraffic> ranks(group.size);
  for (const auto& [elements, calls] : sizes) {
    const Algorithm algorithm = AlgorithmFor(Collective::kAllReduce, elements, wire, group);
    for (int rank = 0; rank < group.size; ++rank) {
      const Schedule schedule = MakeSchedule({.kind = Collective::kAllReduce,
                                              .algorithm = algorithm,
                                              .rank = rank,
                                              .size = group.size,
                                              .count = elements});
      for (const Transfer& transfer : schedule.transfers) {
        if (transfer.kind != Transfer::Kind::kSend) continue;
        const auto bytes = static_cast<double>(transfer.count * SizeOf(wire) * calls);
        ranks[rank].sent += bytes;
        ranks[transfer.peer].received += bytes;
      }
    }
  }
  return ranks;
}

// Returns the mean over the ranks of AllReduceBytes.
double MeanAllReduceBytes(const CallSizes& sizes, DType wire, const CallGroup& group) {
  double sent = 0;
  for (const auto& [elements, calls] : sizes) {
    const Algorithm algorithm = AlgorithmFor(Collective::kAllReduce, elements, wire, group);
    sent += TimesSent(algorithm, group.size) * static_cast<double>(elements * SizeOf(wire) * calls);
  }
  return sent / group.size;
}

// Returns the bytes that each rank of a shard group sends, and receives, in gathers or scatters
// with slices of these sizes. Slices are equal, so all ranks send the same.
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

absl::StatusOr<ShardedCalls> CallsOfShards(const v1::TablesSchema& schema, const v1::JobSpec& spec,
                                           AllReduceWay way) {
  const std::vector<TensorSpec> tensors = TablesFromSchema(schema).tensors;
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

}  // namespace

WorkerTraffic MeanOf(absl::Span<const WorkerTraffic> workers) {
  WorkerTraffic mean;
  if (workers.empty()) return mean;
  for (const WorkerTraffic& worker : workers) {
    mean.sent += worker.sent;
    mean.received += worker.received;
  }
  mean.sent /= static_cast<double>(workers.size());
  mean.received /= static_cast<double>(workers.size());
  return mean;
}

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
  const DType wire = WireOf(spec.update());
  const int workers = static_cast<int>(std::max(1u, spec.workers()));
  PredictedTraffic traffic;
  if (ZeroStage(spec) == 0) {
    MUSTER_ASSIGN_OR_RETURN(const CallSizes sizes, BucketSizes(schema, spec.update(), way));
    traffic.workers = AllReduceBytes(sizes, wire, {workers, way, spec.update().deterministic()});
    return traffic;
  }
  MUSTER_ASSIGN_OR_RETURN(const ShardedCalls calls, CallsOfShards(schema, spec, way));
  const double in_group = calls.GroupBytes(wire);
  const std::vector<WorkerTraffic> replicas = AllReduceBytes(calls.sums, wire, calls.replicas);
  for (int rank = 0; rank < workers; ++rank) {
    WorkerTraffic worker = replicas[rank / calls.group.size];
    worker.sent += in_group;
    worker.received += in_group;
    traffic.workers.push_back(worker);
  }
  return traffic;
}

absl::StatusOr<WorkerTraffic> PredictMeanAllReduceTraffic(const v1::TablesSchema& schema,
                                                          const v1::JobSpec& spec,
                                                          AllReduceWay way) {
  const DType wire = WireOf(spec.update());
  const int workers = static_cast<int>(std::max(1u, spec.workers()));
  if (ZeroStage(spec) == 0) {
    MUSTER_ASSIGN_OR_RETURN(const CallSizes sizes, BucketSizes(schema, spec.update(), way));
    const double mean =
        MeanAllReduceBytes(sizes, wire, {workers, way, spec.update().deterministic()});
    return WorkerTraffic{mean, mean};
  }
  MUSTER_ASSIGN_OR_RETURN(const ShardedCalls calls, CallsOfShards(schema, spec, way));
  const double mean = calls.GroupBytes(wire) + MeanAllReduceBytes(calls.sums, wire, calls.replicas);
  return WorkerTraffic{mean, mean};
}

}  // namespace muster
