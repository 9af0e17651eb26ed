#include "worker/runtime/training/rank_engine.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/mesh/data_ranks.h"
#include "common/mesh/tensor_ranks.h"
#include "common/pipeline/pipeline_schedule.h"
#include "common/pipeline/pipeline_spec.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "worker/data/batch.h"
#include "worker/runtime/training/evaluator.h"
#include "worker/runtime/training/pipeline_links.h"
#include "worker/runtime/training/stage_plan.h"
#include "worker/runtime/training/step_executor.h"

namespace muster {
namespace {

// Returns the most bytes of a message between stages: of the largest micro-batch, or of a pass of
// an evaluation.
size_t MostMessageBytes(const v1::JobSpec& spec, const PreparedJob& job, const ModelPeers& peers) {
  const ModelDescription& model = job.model->description();
  Batch batch;
  batch.examples = Evaluator::ExamplesOfPass(model.most_examples, job.evaluation_data().info());
  batch.examples = std::max<int64_t>(batch.examples, LargestMicroBatch(spec));
  batch.tokens.resize(batch.examples * job.dataset->info().context);
  size_t most = 0;
  for (int unit = 0; unit + 1 < model.units; ++unit) {
    most = std::max(most, job.model->boundaries()->Bytes({.tensor_group = peers.tensor_group,
                                                          .sequence_parallel = DividesTokens(spec)},
                                                         unit, batch));
  }
  return most;
}

// Returns the most messages that any stage holds memory for, so that all stages have as much.
int MostReceived(PipelineShape shape) {
  int most = 0;
  for (const std::vector<PipelineAction>& actions : PipelineSchedule(shape)) {
    const StageHoldings holdings = HoldingsOf(actions);
    most = std::max(most, holdings.received_activations + holdings.received_gradients);
  }
  return most;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepEngine>> MakeRankEngine(const v1::JobSpec& spec,
                                                           const PreparedJob& job,
                                                           Strategy& strategy,
                                                           const ModelPeers& peers) {
  StepExecutor::Options options;
  options.tensor_group = peers.tensor_group;
  if (peers.pipeline_group != nullptr) {
    PipelineStage stage = {.shape = ShapeOfPipeline(spec), .stage = peers.pipeline_group->rank()};
    const auto& layers = job.schema->pipeline_layers();
    stage.sizes.assign(layers.begin(), layers.end());
    MUSTER_ASSIGN_OR_RETURN(
        options.links, PipelineLinks::Create(*peers.pipeline_group,
                                             {.message_bytes = MostMessageBytes(spec, job, peers),
                                              .received = MostReceived(stage.shape),
                                              .timeout = peers.timeout}));
    options.stage = std::move(stage);
  }
  return std::make_unique<StepExecutor>(spec, *job.model, strategy, options);
}

}  // namespace muster
