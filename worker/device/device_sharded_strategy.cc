#include "worker/device/device_sharded_strategy.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/mesh/zero.h"
#include "common/optim/optimizer_options.h"
#include "common/optim/schedule.h"
#include "common/plan/device_shard_plan.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/device/await_device.h"
#include "worker/device/device_memory_plan.h"
#include "worker/device/device_replica.h"
#include "worker/nn/diverged_error.h"
#include "worker/nn/loss_scaling.h"
#include "worker/strategy/group/bucket_plan.h"

namespace muster {

absl::StatusOr<std::unique_ptr<DeviceShardedStrategy>> DeviceShardedStrategy::Create(
    const v1::TaskOrder& order, const v1::TablesSchema& schema, const DeviceOptions& options,
    DeviceShardedDependencies dependencies) {
  MUSTER_RETURN_IF_ERROR(ReadAdamOptions(schema.optimizer()).status());
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<KeptShard> kept,
      KeptShard::Create(
          order, schema,
          {.storage = dependencies.storage, .shard = ShardOf(order), .log = dependencies.log}));
  MUSTER_ASSIGN_OR_RETURN(DeviceParameters places, DeviceParameters::Create(options.shape));
  const DeviceSlices::Holding divided = {.stage = ZeroStage(order.spec()),
                                         .kept_bytes = KeptGatheredBytes(order.spec())};
  DeviceOptions own = options;
  if (divided.stage > 0) {
    MUSTER_ASSIGN_OR_RETURN(
        own.compute.shard,
        PlanDeviceShard(order.spec(), kept->state().tables().tensors, options.compute.type));
  }
  return std::unique_ptr<DeviceShardedStrategy>(new DeviceShardedStrategy(
      divided, schema, own, std::move(dependencies), std::move(kept), std::move(places)));
}

DeviceShardedStrategy::DeviceShardedStrategy(const DeviceSlices::Holding& divided,
                                             const v1::TablesSchema& schema,
                                             const DeviceOptions& options,
                                             DeviceShardedDependencies dependencies,
                                             std::unique_ptr<KeptShard> kept,
                                             DeviceParameters places)
    : divided_(divided),
      schema_(std::make_unique<const v1::TablesSchema>(schema)),
      options_(options),
      dependencies_(std::move(dependencies)),
      kept_(std::move(kept)),
      places_(std::move(places)),
      fingerprint_(divided_.stage > 0 ? ShardFingerprint(divided_.stage, divided_.kept_bytes,
                                                         kept_->state().shard_layout())
                                      : BucketPlanFingerprint(MakeBucketPlan(
                                            places_.layout(), places_.padded(), options.buckets))) {
}

DeviceShardedStrategy::~DeviceShardedStrategy() {
  // Not Leave: nobody needs a copy on the host any more.
  EndGroup();
}

void DeviceShardedStrategy::EndGroup() {
  shard_ = nullptr;
  passes_ = nullptr;
  device_replicas_ = nullptr;
  device_ = nullptr;
  groups_ = nullptr;
}

absl::Status DeviceShardedStrategy::Join(std::unique_ptr<Communicator> communicator,
                                         absl::optional<int> source) {
  Leave();
  MUSTER_ASSIGN_OR_RETURN(groups_,
                          RankGroups::Create(std::move(communicator), kept_->state().shard()));
  // Several shards have no source in common.
  const bool single = kept_->state().shard().count == 1;
  MUSTER_RETURN_IF_ERROR(
      kept_->Fill(groups_->world(), single ? source : absl::nullopt, groups_->replicas()));
  MUSTER_RETURN_IF_ERROR(MakeCommunicators());
  const DeviceExtents extents = DeviceExtentsOf(options_.shape, places_, options_.compute);
  MUSTER_ASSIGN_OR_RETURN(passes_, DevicePasses::Create(options_.shape, options_.compute, extents));
  absl::Status filled = MakeShard();
  if (filled.ok()) filled = shard_->Upload(kept_->state());
  if (!filled.ok()) {
    // There is nothing on the device that Leave could copy.
    shard_ = nullptr;
    passes_ = nullptr;
    return filled;
  }
  clock_ = kept_->state().clock();
  moved_ = 0;
  kept_->HandOver();
  return absl::OkStatus();
}

absl::Status DeviceShardedStrategy::MakeCommunicators() {
  Communicator& group = divided_.stage > 0 ? groups_->shard_group() : groups_->world();
  Communicator* const replicas = divided_.stage > 0 ? groups_->replicas() : nullptr;
  const bool summed_again = replicas != nullptr;
  const int communicators = (group.size() > 1 ? 1 : 0) + (summed_again ? 1 : 0);
  // Communicators take device memory, too, and cannot wait for it.
  MUSTER_RETURN_IF_ERROR(AwaitDevice(options_, communicators));
  if (communicators == 0) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(device_, dependencies_.make_communicator(group));
  if (summed_again) {
    MUSTER_ASSIGN_OR_RETURN(device_replicas_, dependencies_.make_communicator(*replicas));
  }
  return AwaitDevice(options_, communicators);
}

absl::Status DeviceShardedStrategy::MakeShard() {
  if (divided_.stage == 0) {
    MUSTER_ASSIGN_OR_RETURN(
        shard_, DeviceReplica::Create(options_, places_, *passes_,
                                      {.host = groups_->world(), .device = device_.get()}));
    return absl::OkStatus();
  }
  MUSTER_ASSIGN_OR_RETURN(shard_, DeviceSlices::Create(options_, divided_, kept_->state(), *passes_,
                                                       {.host = groups_->world(),
                                                        .shard_group = *device_,
                                                        .replicas = device_replicas_.get()}));
  return absl::OkStatus();
}

void DeviceShardedStrategy::Leave() {
  // After an error there is no replica any more, and replica_clock() says so.
  if (passes_ != nullptr) Download().IgnoreError();
  counters_ = counters();
  EndGroup();
}

absl::Status DeviceShardedStrategy::Download() {
  return kept_->TakeBack([this](ShardState& state) -> absl::Status {
    MUSTER_RETURN_IF_ERROR(shard_->Download(state));
    for (uint64_t& steps : state.state().steps) steps += moved_;
    moved_ = 0;
    state.set_clock(clock_);
    return absl::OkStatus();
  });
}

absl::optional<uint64_t> DeviceShardedStrategy::replica_clock() const {
  if (passes_ != nullptr) return clock_;
  return kept_->clock();
}

const Communicator* DeviceShardedStrategy::communicator() const {
  if (device_ != nullptr) return device_.get();
  return groups_ == nullptr ? nullptr : &groups_->world();
}

std::vector<const FlightRecorder*> DeviceShardedStrategy::recorders() const {
  if (groups_ == nullptr) return {};
  std::vector<const FlightRecorder*> recorders;
  // Without a stage all calls but one a step are on the device's communicator.
  if (divided_.stage > 0 || device_ == nullptr) recorders.push_back(&groups_->world().recorder());
  for (const Communicator* device : {device_.get(), device_replicas_.get()}) {
    if (device != nullptr) recorders.push_back(&device->recorder());
  }
  return recorders;
}

absl::StatusOr<uint64_t> DeviceShardedStrategy::Start() {
  if (passes_ == nullptr) {
    return absl::FailedPreconditionError("a replica starts before it joined the other workers");
  }
  return clock_;
}

absl::Status DeviceShardedStrategy::BeginStep(uint64_t clock) {
  if (clock != clock_) {
    return absl::FailedPreconditionError(
        absl::StrCat("a step begins at clock ", clock, ", but the replica is at ", clock_));
  }
  return shard_->BeginStep();
}

absl::Status DeviceShardedStrategy::BeforeBackward(uint64_t examples, SeriesPosition position) {
  shard_->BeforeBackward(examples, position);
  return absl::OkStatus();
}

absl::Status DeviceShardedStrategy::GradientReady(int unit) {
  shard_->GradientReady(unit);
  return absl::OkStatus();
}

absl::Status DeviceShardedStrategy::EndStep() {
  const float rate = LearningRate(schema_->schedule(), schema_->optimizer().learning_rate(), clock_,
                                  schema_->total_steps());
  // Bias correction counts clocks, as on processors.
  MUSTER_ASSIGN_OR_RETURN(
      const DeviceUpdateResult result,
      shard_->EndStep({.loss_scale = loss_scale(), .learning_rate = rate, .step = clock_ + 1}));
  const bool failed = result.skipped && result.examples > 0;
  LossScaling& scaling = kept_->loss_scaling();
  if (failed && scaling.scaler() == nullptr) {
    return DivergedError(clock_, absl::StrCat("the gradient's norm is ", result.gradient_norm));
  }
  MUSTER_RETURN_IF_ERROR(scaling.TakeEnd(clock_, failed ? StepEnd::kOverflowed : StepEnd::kFinite,
                                         "the gradient's norm"));
  ++clock_;
  if (!result.skipped) ++moved_;
  counters_.gradient_norm.reset();
  if (!result.skipped) counters_.gradient_norm = result.gradient_norm;
  return absl::OkStatus();
}

absl::StatusOr<CutFiles> DeviceShardedStrategy::Cut(uint64_t clock) {
  if (passes_ == nullptr || clock != clock_) {
    return absl::FailedPreconditionError(
        absl::StrCat("a cut at clock ", clock, " was asked for, but the replica is at ", clock_));
  }
  // Calls under way belong to the next step.
  MUSTER_RETURN_IF_ERROR(shard_->AwaitCalls());
  MUSTER_RETURN_IF_ERROR(Download());
  absl::StatusOr<CutFiles> files = kept_->Cut(groups_->world(), /*first_number=*/0, /*failure=*/"");
  kept_->HandOver();
  return files;
}

absl::StatusOr<CutEnd> DeviceShardedStrategy::EndCut(CutEnd mine) {
  return kept_->EndCut(groups_->world(), mine);
}

StrategyCounters DeviceShardedStrategy::counters() const {
  StrategyCounters counters = counters_;
  if (shard_ != nullptr) shard_->Count(counters);
  return counters;
}

}  // namespace muster
