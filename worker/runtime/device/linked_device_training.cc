#include "worker/runtime/device/linked_device_training.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/step/stage_spec.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "worker/runtime/device/device_engine.h"
#include "worker/runtime/device/device_job.h"
#include "worker/runtime/task/task_parts.h"
#include "worker/strategy/group/recovery/kept_shard.h"

namespace muster {
namespace {

WaitFunction WaitFor(const TaskDependencies& dependencies) {
  return [waiter = dependencies.waiter](absl::Duration duration) { return waiter->Wait(duration); };
}

class LinkedDeviceTraining final : public DeviceTraining {
 public:
  explicit LinkedDeviceTraining(LinkedDeviceOptions options) : options_(std::move(options)) {}

  absl::StatusOr<std::unique_ptr<StepEngine>> MakeEngine(
      const v1::TaskOrder& order, const PreparedJob& job, Strategy& strategy,
      const TaskDependencies& dependencies) override {
    MUSTER_ASSIGN_OR_RETURN(DeviceOptions device,
                            DeviceOptionsFor(order.spec(), job.dataset->info(), options_.device));
    device.wait = WaitFor(dependencies);
    return MakeCopyingDeviceEngine(order.spec(), device, strategy);
  }

  absl::StatusOr<ReplicaParts> MakeReplica(const v1::TaskOrder& order, const PreparedJob& job,
                                           const TaskDependencies& dependencies) override {
    MUSTER_ASSIGN_OR_RETURN(
        DeviceOptions device,
        ResidentDeviceOptionsFor(order.spec(), job.dataset->info(), *job.schema, options_.device));
    device.wait = WaitFor(dependencies);
    device.timeout = StallTimeoutOf(order);
    const ModelStage stage = StageOfJob(order.spec(), *job.schema, job.model->description().units,
                                        ShardOf(order).at(Axis::kPipeline));
    TakeStage(stage, device.compute);
    ShardedDependencies lent;
    lent.storage = dependencies.storage;
    lent.clock = dependencies.clock;
    lent.log = dependencies.log;
    MUSTER_ASSIGN_OR_RETURN(DeviceStrategy made,
                            MakeDeviceStrategy(order, *job.schema, device,
                                               options_.make_communicator, std::move(lent)));
    ReplicaParts parts;
    parts.make_engine = [spec = order.spec(), device, stage, shard = made.shard,
                         lent = made.strategy.get()] {
      return MakeDeviceEngine(spec, device,
                              {.passes = *shard->passes(),
                               .strategy = *lent,
                               .tensor_group = lent->tensor_group(),
                               .context_group = lent->context_group(),
                               .expert_group = lent->expert_group(),
                               .counting_group = lent->counting_group(),
                               .stage = stage,
                               .stages = lent->stage_group()});
    };
    parts.group = std::move(made.strategy);
    return parts;
  }

 private:
  const LinkedDeviceOptions options_;
};

}  // namespace

std::unique_ptr<DeviceTraining> MakeLinkedDeviceTraining(LinkedDeviceOptions options) {
  return std::make_unique<LinkedDeviceTraining>(std::move(options));
}

}  // namespace muster
