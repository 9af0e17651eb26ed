#include "common/plan/calls/step_traffic.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/mesh/job_mesh.h"
#include "common/step/shares.h"
#include "common/step/stage_spec.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// The micro-batches of a step that are recorded, and how many each of them stands for.
struct MicroBatches {
  std::vector<uint64_t> examples;
  std::vector<double> times;
};

// Returns the micro-batches of a data rank that has so many examples of a step: the first, which
// finds no weights in place; one for those of the middle that have an example more than the rest,
// and one for the rest; and the last, after which gradients leave.
MicroBatches MicroBatchesOf(const StageShape& shape, uint64_t examples) {
  const auto all = static_cast<uint64_t>(shape.micro_batches);
  const uint64_t larger = examples % all;
  // Interleaved stages have whole rounds of micro-batches.
  const uint64_t round = shape.order == StageOrder::kInterleaved ? shape.stages : 1;
  const uint64_t recorded = std::min(all, RoundUp<uint64_t>(4, round));
  MicroBatches result;
  for (uint64_t i = 0; i < recorded; ++i) {
    result.examples.push_back(examples / all + (i < larger ? 1 : 0));
    result.times.push_back(1);
  }
  if (recorded == all) return result;
  const uint64_t larger_middle = larger > 0 ? larger - 1 : 0;
  std::fill(result.times.begin() + 1, result.times.end() - 1, 0);
  std::fill(result.examples.begin() + 2, result.examples.end(), examples / all);
  result.examples[1] = examples / all + 1;
  result.times[1] = static_cast<double>(larger_middle);
  result.times[2] = static_cast<double>(all - 2 - larger_middle);
  return result;
}

// Calls `visitor(call, times)` for each call of the step whose bytes count.
template <typename Visitor>
void ForEachCall(const RecordedStep& step, const MicroBatches& micro_batches, Visitor visitor) {
  for (const RecordedAction& action : step.actions) {
    const bool of_step =
        action.action.kind == ActionKind::kBeginStep || action.action.kind == ActionKind::kEndStep;
    const double times = of_step ? 1 : micro_batches.times[action.action.micro_batch];
    for (const StepCall& call : step.CallsOf(action)) {
      if (call.among != Axes().Others()) visitor(call, times);
    }
  }
}

WorkerTraffic& PartOf(const StepCall& call, AxisTraffic& traffic) {
  if (call.among == Axis::kPipeline) return traffic.pipeline;
  const bool within_layers = call.among == Axis::kTensor || call.among == kContext ||
                             call.among == kExpertAxes || call.among == kDataAxes;
  return within_layers ? traffic.tensor : traffic.data;
}

// The bytes of steps of one kind of rank.
class RankTraffic {
 public:
  RankTraffic(const JobCalls& job, CallBytes& bytes, std::unique_ptr<RankCalls> rank)
      : job_(job), bytes_(bytes), rank_(std::move(rank)) {}

  // Returns the mean traffic of ranks of this kind whose data rank has so many examples of a step.
  AxisTraffic Mean(uint64_t examples) const {
    const MicroBatches micro_batches = MicroBatchesOf(ShapeOfStages(job_.spec()), examples);
    AxisTraffic traffic;
    ForEachCall(rank_->Record({.examples = micro_batches.examples}), micro_batches,
                [&](const StepCall& call, double times) {
                  PartOf(call, traffic) += bytes_.Of(call, absl::nullopt) * times;
                });
    return traffic;
  }

  // Returns the traffic of a slot; and how often it pulls each unit, if it pulls any.
  AxisTraffic OfSlot(int slot, uint64_t examples, std::vector<double>& pulls) const {
    const MicroBatches micro_batches = MicroBatchesOf(ShapeOfStages(job_.spec()), examples);
    const Mesh& mesh = job_.mesh();
    AxisTraffic traffic;
    ForEachCall(rank_->Record({.examples = micro_batches.examples,
                               .shard = mesh.Position(slot, kHolderAxes)}),
                micro_batches, [&](const StepCall& call, double times) {
                  const int position = mesh.Position(slot, call.among) % call.ranks;
                  PartOf(call, traffic) += bytes_.Of(call, position) * times;
                  if (call.name != "pull") return;
                  pulls.resize(std::max<size_t>(pulls.size(), call.index + 1));
                  pulls[call.index] += times;
                });
    return traffic;
  }

  const RankCalls& calls() const { return *rank_; }

 private:
  const JobCalls& job_;
  CallBytes& bytes_;
  std::unique_ptr<RankCalls> rank_;
};

// Adds what the slot pulls to what each partition sends.
void AddPulled(const RankCalls& rank, const std::vector<double>& pulls,
               std::vector<double>& partitions) {
  for (size_t unit = 0; unit < pulls.size(); ++unit) {
    const std::vector<uint64_t>& bytes = rank.pulled_by_partition()[unit];
    for (size_t p = 0; p < bytes.size(); ++p) {
      partitions[p] += pulls[unit] * static_cast<double>(bytes[p]);
    }
  }
}

// Returns the calls of the job; on devices, if its calls are made there.
absl::StatusOr<JobCalls> CallsOf(const v1::TablesSchema& schema, v1::JobSpec spec, CallRoad road,
                                 AllReduceWay way) {
  if (way == AllReduceWay::kDevices) spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
  return JobCalls::Create(schema, spec, road);
}

// Predicts the traffic of each slot, and adds up what each partition of servers sends.
absl::StatusOr<PredictedTraffic> PredictSlots(const v1::TablesSchema& schema,
                                              const v1::JobSpec& spec, CallRoad road,
                                              AllReduceWay way, std::vector<double>& partitions) {
  MUSTER_ASSIGN_OR_RETURN(const JobCalls job, CallsOf(schema, spec, road, way));
  CallBytes bytes(way);
  std::vector<RankTraffic> ranks;
  for (int rank = 0; rank < job.kinds().world_size(); ++rank) {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<RankCalls> calls, RankCalls::Create(job, rank));
    ranks.emplace_back(job, bytes, std::move(calls));
  }
  PredictedTraffic predicted;
  const Mesh& mesh = job.mesh();
  for (int slot = 0; slot < mesh.world_size(); ++slot) {
    const RankTraffic& rank = ranks[job.KindOf(slot)];
    const Share share =
        ShareOf(LargestBatch(spec), mesh.Position(slot, kDataAxes), mesh.size(kDataAxes));
    std::vector<double> pulls;
    const AxisTraffic traffic = rank.OfSlot(slot, share.size(), pulls);
    predicted.workers.push_back(traffic.total());
    predicted.tensor.push_back(traffic.tensor);
    predicted.pipeline.push_back(traffic.pipeline);
    AddPulled(rank.calls(), pulls, partitions);
  }
  return predicted;
}

}  // namespace

WorkerTraffic AxisTraffic::total() const {
  WorkerTraffic sum = data;
  sum += tensor;
  sum += pipeline;
  return sum;
}

AxisTraffic& AxisTraffic::operator+=(const AxisTraffic& other) {
  data += other.data;
  tensor += other.tensor;
  pipeline += other.pipeline;
  return *this;
}

AxisTraffic operator*(const AxisTraffic& traffic, double factor) {
  return {traffic.data * factor, traffic.tensor * factor, traffic.pipeline * factor};
}

absl::StatusOr<PredictedTraffic> PredictServerTraffic(
    const v1::TablesSchema& schema, absl::Span<const v1::PartitionPlacement* const> partitions,
    const v1::JobSpec& spec, AllReduceWay way) {
  std::vector<double> sent(std::max(1u, schema.partitions()));
  MUSTER_ASSIGN_OR_RETURN(PredictedTraffic traffic,
                          PredictSlots(schema, spec, CallRoad::kServers, way, sent));
  for (const v1::PartitionPlacement* placement : partitions) {
    for (const v1::Replica& replica : placement->replicas()) {
      if (replica.role() != v1::Replica::PRIMARY) continue;
      traffic.server_sent[replica.server_id()] += sent[placement->partition()];
    }
  }
  return traffic;
}

absl::StatusOr<PredictedTraffic> PredictAllReduceTraffic(const v1::TablesSchema& schema,
                                                         const v1::JobSpec& spec,
                                                         AllReduceWay way) {
  std::vector<double> none;
  return PredictSlots(schema, spec, CallRoad::kAllReduce, way, none);
}

absl::StatusOr<std::vector<AxisTraffic>> PredictMeanTraffic(const v1::TablesSchema& schema,
                                                            const v1::JobSpec& spec, CallRoad road,
                                                            AllReduceWay way) {
  MUSTER_ASSIGN_OR_RETURN(const JobCalls job, CallsOf(schema, spec, road, way));
  CallBytes bytes(way);
  const uint64_t data_ranks = job.mesh().size(kDataAxes);
  const uint64_t examples = LargestBatch(spec) / data_ranks;
  const uint64_t larger = LargestBatch(spec) % data_ranks;
  const Mesh model = job.kinds();
  const int ranks = model.size(kLayerAxes);
  // The first rank of a layer has more than the others, which have equally many; but which of them
  // pushes what they share differs.
  const bool alike_but_first = !job.served() && model.size(kContext) == 1;
  const int kinds = alike_but_first ? std::min(ranks, 2) : ranks;
  std::vector<AxisTraffic> stages(job.division().stages());
  for (int stage = 0; stage < job.division().stages(); ++stage) {
    AxisTraffic sum;
    for (int kind = 0; kind < kinds; ++kind) {
      const int rank = model.Move(model.Move(0, Axis::kPipeline, stage), kLayerAxes, kind);
      MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<RankCalls> calls, RankCalls::Create(job, rank));
      const RankTraffic traffic(job, bytes, std::move(calls));
      const double alike = kind + 1 == kinds ? ranks - kind : 1;
      sum += traffic.Mean(examples) * (alike * static_cast<double>(data_ranks - larger));
      if (larger > 0) sum += traffic.Mean(examples + 1) * (alike * static_cast<double>(larger));
    }
    const auto count = static_cast<double>(ranks) * static_cast<double>(data_ranks);
    const auto mean = [count](const WorkerTraffic& all) {
      return WorkerTraffic{all.sent / count, all.received / count};
    };
    stages[stage] = {mean(sum.data), mean(sum.tensor), mean(sum.pipeline)};
  }
  return stages;
}

}  // namespace muster
