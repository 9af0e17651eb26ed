#ifndef MUSTER_WORKER_RUNTIME_TRAINING_RANK_ENGINE_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_RANK_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/step/stage_shape.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/tensor_group.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/stage_links.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// The ranks with which a rank computes the model. They outlive its engine.
struct ModelPeers {
  // The ranks that divide the rank's layers with it; null: it computes whole layers.
  TensorGroup* tensor_group = nullptr;
  // The ranks that share out sequences with it; null: it computes whole ones.
  ContextGroup* context_group = nullptr;
  // The ranks that share out experts with it; null: it has all experts.
  ExpertGroup* expert_group = nullptr;
  // The data ranks that count choices of experts together with it; null: it alone.
  CountingGroup* counting_group = nullptr;
  // The communicator of the stages, of which the rank's own is its rank there; null: it computes
  // all layers.
  Communicator* stages = nullptr;
  // The timeout of each message between stages.
  absl::Duration timeout = absl::Minutes(10);
};

// Returns the memory of the links between stages, the same for all stages: what is planned of it
// (common/plan/ranks/planned_stages.h).
StageLinksOptions LinksOfStages(const v1::JobSpec& spec, const PreparedJob& job,
                                const ModelStage& stage, const ModelPeers& peers);

// Makes the engine that computes a rank's part of the model on processors; a collective call of the
// stages, if there are several. The job and the strategy outlive the engine. Errors are the
// communicator's.
absl::StatusOr<std::unique_ptr<StepEngine>> MakeRankEngine(const v1::JobSpec& spec,
                                                           const PreparedJob& job,
                                                           Strategy& strategy,
                                                           const ModelPeers& peers);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_RANK_ENGINE_H_
