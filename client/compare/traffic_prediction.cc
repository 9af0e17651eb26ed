#include "client/compare/traffic_prediction.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/partition/dense_layout.h"
#include "common/partition/pulled_types.h"
#include "common/partition/schema.h"
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

// Returns the number of buckets of each size, in elements. Nearly all buckets of a large model have
// one size.
absl::StatusOr<std::map<uint64_t, int>> BucketSizes(const v1::TablesSchema& schema,
                                                    const v1::UpdateSpec& update,
                                                    AllReduceWay way) {
  std::vector<TensorSpec> tensors = TablesFromSchema(schema).tensors;
  if (way == AllReduceWay::kDevices) tensors = PaddedTensors(std::move(tensors));
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, LayoutOf(schema, tensors));
  std::map<uint64_t, int> sizes;
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

// Returns the algorithm of an all-reduce of `elements`.
Algorithm AlgorithmFor(uint64_t elements, const v1::UpdateSpec& update, int workers,
                       AllReduceWay way) {
  if (way == AllReduceWay::kDevices) return kOfDevices;
  return ChooseAlgorithm({.kind = Collective::kAllReduce,
                          .dtype = WireOf(update),
                          .bytes = elements * SizeOf(WireOf(update)),
                          .size = workers,
                          .same_machine = way == AllReduceWay::kSharedMemory,
                          .deterministic = update.deterministic()});
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
                                                         const v1::UpdateSpec& update, int workers,
                                                         AllReduceWay way) {
  const DType wire = WireOf(update);
  PredictedTraffic traffic;
  traffic.workers.resize(workers);
  MUSTER_ASSIGN_OR_RETURN(const auto sizes, BucketSizes(schema, update, way));
  for (const auto& [elements, buckets] : sizes) {
    const Algorithm algorithm = AlgorithmFor(elements, update, workers, way);
    for (int rank = 0; rank < workers; ++rank) {
      const Schedule schedule = MakeSchedule({.kind = Collective::kAllReduce,
                                              .algorithm = algorithm,
                                              .rank = rank,
                                              .size = workers,
                                              .count = elements});
      for (const Transfer& transfer : schedule.transfers) {
        if (transfer.kind != Transfer::Kind::kSend) continue;
        const auto bytes = static_cast<double>(transfer.count * SizeOf(wire) * buckets);
        traffic.workers[rank].sent += bytes;
        traffic.workers[transfer.peer].received += bytes;
      }
    }
  }
  return traffic;
}

absl::StatusOr<WorkerTraffic> PredictMeanAllReduceTraffic(const v1::TablesSchema& schema,
                                                          const v1::UpdateSpec& update, int workers,
                                                          AllReduceWay way) {
  MUSTER_ASSIGN_OR_RETURN(const auto sizes, BucketSizes(schema, update, way));
  double sent = 0;
  for (const auto& [elements, buckets] : sizes) {
    const double times = TimesSent(AlgorithmFor(elements, update, workers, way), workers);
    sent += times * static_cast<double>(elements * SizeOf(WireOf(update)) * buckets);
  }
  const double mean = sent / workers;
  return WorkerTraffic{mean, mean};
}

}  // namespace muster
