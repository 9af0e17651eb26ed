#include "client/compare/pipeline_traffic.h"

#include <cstddef>
#include <cstdint>

#include "client/compare/data_rank_traffic.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/dense_layout.h"
#include "common/partition/schema.h"
#include "common/partition/shard_layout.h"
#include "common/plan/ranks/rank_size.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// The messages of the ranks of one stage that compute a model together.
class StageMessages {
 public:
  static absl::StatusOr<StageMessages> Create(absl::Span<const TensorSpec> tensors,
                                              const v1::JobSpec& spec,
                                              const ModelDivision& division, int stage) {
    StageMessages messages(spec, division, stage);
    // The shares of each stage's first rank, which suffice for the sizes of messages.
    for (int rank : division.mesh.Group(0, Axis::kPipeline)) {
      MUSTER_ASSIGN_OR_RETURN(messages.tensors_.emplace_back(),
                              LocalTensors(tensors, division, rank));
    }
    for (int rank : RanksOfStage(division.mesh, stage)) {
      MUSTER_ASSIGN_OR_RETURN(const std::vector<TensorSpec> own,
                              LocalTensors(tensors, division, rank));
      MUSTER_ASSIGN_OR_RETURN(messages.shared_.emplace_back(), SharedTraffic(own, spec));
    }
    return messages;
  }

  // Returns the traffic of all messages of each rank of a data rank that has so many examples of a
  // step.
  std::vector<WorkerTraffic> OfExamples(uint64_t examples) const {
    std::vector<WorkerTraffic> ranks(shared_.size());
    ForEachMicroBatchSize(spec_, examples, [&](uint64_t each, uint64_t count) {
      for (size_t r = 0; r < ranks.size(); ++r) {
        WorkerTraffic messages = OfMicroBatch(each, static_cast<int>(r));
        messages *= static_cast<double>(count);
        ranks[r] += messages;
      }
    });
    return ranks;
  }

  // Returns the traffic of a step in which the ranks of a data rank sum the gradients of elements
  // that other stages have, too.
  std::vector<WorkerTraffic> OfSharedElements(size_t data_rank) const {
    std::vector<WorkerTraffic> ranks;
    for (const std::vector<WorkerTraffic>& shards : shared_) {
      ranks.push_back(shards[data_rank % shards.size()]);
    }
    return ranks;
  }

  // Returns the mean of OfSharedElements over all ranks.
  WorkerTraffic MeanOfSharedElements() const {
    std::vector<WorkerTraffic> means;
    for (const std::vector<WorkerTraffic>& shards : shared_) means.push_back(MeanOf(shards));
    return MeanOf(means);
  }

 private:
  StageMessages(const v1::JobSpec& spec, const ModelDivision& division, int stage)
      : spec_(spec), division_(division), stage_(stage) {}

  // Returns the same of one rank with these tensors, by its shard of them. On servers the last
  // stage sends the first its part, which the first adds to its own and pushes.
  static absl::StatusOr<std::vector<WorkerTraffic>> SharedTraffic(
      absl::Span<const TensorSpec> tensors, const v1::JobSpec& spec) {
    std::vector<TensorSpec> shared;
    for (const TensorSpec& tensor : tensors) {
      if (tensor.stages > 1 && tensor.elements() > 0) shared.push_back(tensor);
    }
    std::vector<WorkerTraffic> traffic(SizeAlong(Axis::kShard, spec));
    if (shared.empty()) return traffic;
    const bool sends = TrainsByAllReduce(spec) || !shared[0].first_stage;
    const bool receives = TrainsByAllReduce(spec) || shared[0].first_stage;
    MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout,
                            DenseLayout::Create(shared, LayoutOptions(spec.update())));
    const ShardLayout shards(layout, static_cast<int>(traffic.size()));
    for (size_t shard = 0; shard < traffic.size(); ++shard) {
      for (const auto& owned : shards.OwnedBlocks(layout, static_cast<int>(shard))) {
        const auto bytes = static_cast<double>(owned.block.elements() * sizeof(float));
        traffic[shard] += {sends ? bytes : 0, receives ? bytes : 0};
      }
    }
    return traffic;
  }

  WorkerTraffic OfMicroBatch(uint64_t examples, int rank) const {
    WorkerTraffic traffic;
    int unit = -1;
    for (size_t group = 0; group + 1 < division_.virtual_stage_units.size(); ++group) {
      unit += division_.virtual_stage_units[group];
      const int from = static_cast<int>(group) % division_.stages();
      const int to = static_cast<int>(group + 1) % division_.stages();
      const auto bytes =
          static_cast<double>(BoundaryBytes(spec_, tensors_[from], unit, examples, rank));
      // The output one way, its gradient the other way.
      if (from == stage_) traffic += {bytes, bytes};
      if (to == stage_) traffic += {bytes, bytes};
    }
    return traffic;
  }

  const v1::JobSpec& spec_;
  const ModelDivision& division_;
  const int stage_;
  std::vector<std::vector<TensorSpec>> tensors_;
  // By rank of the stage, then by shard.
  std::vector<std::vector<WorkerTraffic>> shared_;
};

}  // namespace

std::vector<int> RanksOfStage(const Mesh& model, int stage) {
  return model.Group(model.Move(0, Axis::kPipeline, stage), kLayerAxes);
}

absl::StatusOr<std::vector<WorkerTraffic>> PredictStageTraffic(absl::Span<const TensorSpec> tensors,
                                                               const v1::JobSpec& spec,
                                                               const ModelDivision& division,
                                                               int stage) {
  MUSTER_ASSIGN_OR_RETURN(const StageMessages messages,
                          StageMessages::Create(tensors, spec, division, stage));
  std::vector<WorkerTraffic> workers = TrafficOfDataRanks(
      spec, [&messages](uint64_t examples) { return messages.OfExamples(examples); });
  for (size_t d = 0, worker = 0; worker < workers.size(); ++d) {
    for (const WorkerTraffic& shared : messages.OfSharedElements(d)) workers[worker++] += shared;
  }
  return workers;
}

absl::StatusOr<WorkerTraffic> PredictMeanStageTraffic(absl::Span<const TensorSpec> tensors,
                                                      const v1::JobSpec& spec,
                                                      const ModelDivision& division, int stage) {
  MUSTER_ASSIGN_OR_RETURN(const StageMessages messages,
                          StageMessages::Create(tensors, spec, division, stage));
  WorkerTraffic mean = MeanTrafficOfDataRanks(
      spec, [&messages](uint64_t examples) { return messages.OfExamples(examples); });
  mean += messages.MeanOfSharedElements();
  return mean;
}

}  // namespace muster
