#include "worker/runtime/device/device_job.h"

#include "common/base/status_macros.h"
#include "common/mesh/job_mesh.h"
#include "common/optim/optimizer_options.h"
#include "common/partition/bucket_plan.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/plan/ranks/planned_stages.h"
#include "common/step/compute_order.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "worker/models/resolve_transformer.h"

namespace muster {

absl::StatusOr<DeviceOptions> DeviceOptionsFor(const v1::JobSpec& spec, const DatasetInfo& data,
                                               int device) {
  if (!spec.model().has_transformer()) {
    return absl::InvalidArgumentError(
        "compute.device is CUDA, but only model.transformer computes on devices; leave it out");
  }
  DeviceOptions options;
  MUSTER_ASSIGN_OR_RETURN(options.shape,
                          ResolveTransformer(spec.model().transformer(), data.vocabulary));
  options.compute.type = ActivationType(spec.compute());
  options.compute.recompute = ResolveRecompute(spec.compute());
  options.compute.sequences = LargestMicroBatch(spec);
  options.compute.length = data.context;
  options.compute.mesh = MeshOf(spec).Only(kShareAxes);
  options.compute.sequence_parallel = DividesTokens(spec);
  options.compute.context_exchange = ContextExchangeOf(spec);
  if (ChoicesCountedOf(spec) == ChoicesCounted::kTogether) {
    options.compute.counting_ranks = static_cast<int>(SizeAlong(kDataAxes, spec));
  }
  options.compute.optimizer = OptimizerPlace::kElsewhere;
  options.seed = spec.seed();
  options.device = device;
  return options;
}

absl::StatusOr<DeviceOptions> ResidentDeviceOptionsFor(const v1::JobSpec& spec,
                                                       const DatasetInfo& data,
                                                       const v1::TablesSchema& schema, int device) {
  MUSTER_ASSIGN_OR_RETURN(DeviceOptions options, DeviceOptionsFor(spec, data, device));
  MUSTER_ASSIGN_OR_RETURN(const OptimizerOptions adam, ReadAdamOptions(schema.optimizer()));
  options.compute.optimizer = OptimizerPlace::kDevice;
  options.optimizer.kind =
      schema.optimizer().name() == "adamw" ? AdamKind::kAdamW : AdamKind::kAdam;
  options.optimizer.beta1 = adam.beta1;
  options.optimizer.beta2 = adam.beta2;
  options.optimizer.epsilon = adam.epsilon;
  options.optimizer.weight_decay = adam.weight_decay;
  if (const float limit = schema.clipping().by_value(); limit > 0) {
    options.optimizer.clip_value = limit;
  }
  if (const float norm = schema.clipping().by_global_norm(); norm > 0) options.clip.max_norm = norm;
  options.buckets = BucketPlanOptionsOf(spec.update());
  return options;
}

void TakeStage(const ModelStage& stage, DeviceComputeOptions& options) {
  options.chunks.clear();
  for (int chunk = 0; chunk < stage.shape.chunks; ++chunk) {
    options.chunks.push_back(stage.UnitsOf(chunk, chunk));
  }
  options.activation_stashes = MostActivationStashes(stage.shape, stage.stage);
  options.split_backward = stage.shape.order == StageOrder::kZeroBubble;
  options.messages = StageMessages(stage.shape);
}

}  // namespace muster
