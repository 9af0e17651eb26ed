#include "worker/runtime/training/rank_engine.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/job/validation/job_validator.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/ranks/planned_stages.h"
#include "common/step/stage_spec.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "worker/data/batch.h"
#include "worker/runtime/training/step_executor.h"

namespace muster {
namespace {

// Returns the most examples of a message between stages: of the largest micro-batch, or of a pass
// of an evaluation.
int64_t MostExamples(const v1::JobSpec& spec, const PreparedJob& job) {
  const uint64_t evaluated = EvaluatedExamples(
      spec, job.evaluation_data().info().labels_per_example, job.evaluated.held_out);
  const int64_t of_pass = std::min<int64_t>(job.model->description().most_examples, evaluated);
  return OnlyEvaluates(spec) ? of_pass : std::max<int64_t>(of_pass, LargestMicroBatch(spec));
}

// Returns the most bytes of a message between stages, whose virtual stages end with units of
// different sizes.
size_t MostMessageBytes(const v1::JobSpec& spec, const PreparedJob& job, const ModelStage& stage,
                        const ModelPeers& peers) {
  Batch batch;
  batch.examples = MostExamples(spec, job);
  batch.tokens.resize(batch.examples * job.dataset->info().context);
  if (DividesTokens(spec)) {
    // The last ranks of a layer may have fewer tokens of the largest batch than of a smaller one:
    // of 25 tokens four ranks have 7, 7, 7 and 4, of 20 they have 5 each. So all have room for the
    // most.
    batch.tokens.resize(RoundUp<size_t>(batch.tokens.size(), SizeAlong(kLayerAxes, spec)));
    batch.examples = 1;
  }
  size_t most = 0;
  for (int group = 1; group < stage.shape.virtual_stages(); ++group) {
    most = std::max(most, job.model->boundaries()->Bytes({.tensor_group = peers.tensor_group,
                                                          .sequence_parallel = DividesTokens(spec),
                                                          .context_group = peers.context_group},
                                                         stage.FirstUnit(group) - 1, batch));
  }
  return most;
}

}  // namespace

StageLinksOptions LinksOfStages(const v1::JobSpec& spec, const PreparedJob& job,
                                const ModelStage& stage, const ModelPeers& peers) {
  return {.message_bytes = MostMessageBytes(spec, job, stage, peers),
          .received = ReceivedMessages(stage.shape),
          .sent = kStageMessagesSent};
}

absl::StatusOr<std::unique_ptr<StepEngine>> MakeRankEngine(const v1::JobSpec& spec,
                                                           const PreparedJob& job,
                                                           Strategy& strategy,
                                                           const ModelPeers& peers) {
  StepExecutor::Options options;
  options.tensor_group = peers.tensor_group;
  options.context_group = peers.context_group;
  options.expert_group = peers.expert_group;
  options.counting_group = peers.counting_group;
  options.stage = StageOfJob(spec, *job.schema, job.model->description().units,
                             peers.stages == nullptr ? 0 : peers.stages->rank());
  if (peers.stages != nullptr) {
    StageLinksOptions links = LinksOfStages(spec, job, *options.stage, peers);
    links.timeout = peers.timeout;
    MUSTER_ASSIGN_OR_RETURN(options.links, StageLinks::Create(*peers.stages, links));
  }
  return std::make_unique<StepExecutor>(spec, *job.model, strategy, options);
}

}  // namespace muster
