#include "worker/runtime/device/device_engine.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/plan/device/device_memory_layout.h"
#include "common/plan/ranks/planned_stages.h"
#include "proto/job.pb.h"
#include "worker/device/memory/device_memory_plan.h"
#include "worker/device/passes/device_backend.h"
#include "worker/device/passes/warm_up.h"
#include "worker/device/weights/copying_strategy.h"
#include "worker/device/weights/device_slice_ops.h"
#include "worker/models/transformer.h"
#include "worker/runtime/training/stage_links.h"
#include "worker/runtime/training/step_executor.h"

namespace muster {
namespace {

class DeviceEngine final : public StepEngine {
 public:
  DeviceEngine(const v1::JobSpec& spec, std::unique_ptr<const Model> model,
               std::unique_ptr<DeviceSliceOps> order, std::shared_ptr<StageLinks> links,
               DeviceEngineParts parts)
      : passes_(parts.passes),
        owned_(std::move(parts.owned)),
        model_(std::move(model)),
        order_(std::move(order)),
        executor_(spec, *model_, parts.strategy,
                  {.tensor_group = parts.tensor_group,
                   .context_group = parts.context_group,
                   .expert_group = parts.expert_group,
                   .counting_group = parts.counting_group,
                   .stage = parts.stage,
                   .links = std::move(links)}) {}
  // After a failed step, calls of the model may be put off that nobody makes any more.
  ~DeviceEngine() override { passes_.Stop(); }

  int64_t most_examples() const override { return executor_.most_examples(); }
  absl::Status Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) override {
    return executor_.Train(clock, micro_batches, sums);
  }
  absl::Status TrainVerified(uint64_t clock, MicroBatchSource& micro_batches, StepCheck& check,
                             StepSums& sums) override {
    return executor_.TrainVerified(clock, micro_batches, check, sums);
  }
  absl::Status BeginEvaluation(uint64_t clock) override { return executor_.BeginEvaluation(clock); }
  absl::Status Evaluate(const Batch& batch, PassOutput output, PassResult& result) override {
    return executor_.Evaluate(batch, output, result);
  }

 private:
  DevicePasses& passes_;
  const std::unique_ptr<Strategy> owned_;
  const std::unique_ptr<const Model> model_;
  // The order between messages of stages and computation. Null if there is one stage.
  const std::unique_ptr<DeviceSliceOps> order_;
  StepExecutor executor_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StepEngine>> MakeDeviceEngine(const v1::JobSpec& spec,
                                                             const DeviceOptions& options,
                                                             DeviceEngineParts parts) {
  const DeviceComputeOptions& compute = options.compute;
  std::unique_ptr<const Model> model = MakeTransformer(
      options.shape, compute.mesh, compute.type, compute.recompute,
      std::make_unique<DeviceBackend>(options.shape, parts.passes, parts.context_group));
  std::unique_ptr<DeviceSliceOps> order;
  std::shared_ptr<StageLinks> links;
  // Before ranks have warmed up, which they do at different speeds.
  if (parts.stages != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(
        order, DeviceSliceOps::Create(
                   [&passes = parts.passes]() -> DeviceStream& { return passes.stream(); }));
    MUSTER_ASSIGN_OR_RETURN(
        links, StageLinks::Create(*parts.stages, {.message_bytes = StageMessageBytes(
                                                      DeviceActivations(options.shape, compute)),
                                                  .received = compute.messages - kStageMessagesSent,
                                                  .sent = kStageMessagesSent,
                                                  .timeout = options.timeout,
                                                  .order = order.get()}));
  }
  MUSTER_RETURN_IF_ERROR(WarmUp(parts.passes, *model, parts.strategy.parameters(),
                                parts.strategy.gradients(),
                                {.tensor_group = parts.tensor_group,
                                 .sequence_parallel = compute.sequence_parallel,
                                 .context_group = parts.context_group,
                                 .context_exchange = compute.context_exchange,
                                 .expert_group = parts.expert_group,
                                 .counting_group = parts.counting_group,
                                 .units = compute.chunks,
                                 .split_backward = compute.split_backward}));
  return std::make_unique<DeviceEngine>(spec, std::move(model), std::move(order), std::move(links),
                                        std::move(parts));
}

absl::StatusOr<std::unique_ptr<StepEngine>> MakeCopyingDeviceEngine(const v1::JobSpec& spec,
                                                                    const DeviceOptions& options,
                                                                    Strategy& strategy) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<CopyingStrategy> copying,
                          CopyingStrategy::Create(strategy, options));
  CopyingStrategy& on_device = *copying;
  return MakeDeviceEngine(
      spec, options,
      {.passes = on_device.passes(), .strategy = on_device, .owned = std::move(copying)});
}

}  // namespace muster
