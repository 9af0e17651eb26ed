#include "worker/device/device_sharded_strategy.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/mesh/job_mesh.h"
#include "common/optim/optimizer_options.h"
#include "common/optim/schedule.h"
#include "common/partition/dense_layout.h"
#include "common/partition/schema.h"
#include "common/partition/shard_layout.h"
#include "common/plan/device/device_shard_plan.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/device/await_device.h"
#include "worker/device/device_memory_plan.h"
#include "worker/device/device_replica.h"
#include "worker/nn/diverged_error.h"
#include "worker/nn/loss_scaling.h"
#include "worker/strategy/group/gradients/bucket_plan.h"
#include "worker/strategy/group/gradients/tied_sums.h"

namespace muster {
namespace {

// Returns a fingerprint of the plan of the first tensor rank, from which those of the others
// follow.
absl::StatusOr<uint64_t> PlanFingerprint(const v1::JobSpec& spec, const v1::TablesSchema& schema,
                                         const DeviceOptions& options, const MeshPosition& shard) {
  MUSTER_ASSIGN_OR_RETURN(const Tables tables, LocalTables(schema, shard.Of(0)));
  if (ZeroStage(spec) == 0) {
    MUSTER_ASSIGN_OR_RETURN(const DeviceParameters places,
                            DeviceParameters::Create(options.shape, tables.tensors));
    return BucketPlanFingerprint(MakeBucketPlan(places.layout(), places.padded(), options.buckets));
  }
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, LayoutOfTensors(schema, tables.tensors));
  return ShardFingerprint(ZeroStage(spec), KeptGatheredBytes(spec),
                          ShardLayout(layout, shard.size(Axis::kShard)));
}

// Returns the number of NCCL's communicators that tensor ranks have in the group: one of all, and
// one of those that have a key-value head in common, if some but not all have.
int TensorCommunicators(const DeviceOptions& options) {
  const int ranks = options.compute.tensor_ranks;
  if (ranks == 1) return 0;
  return options.shape.kv_heads > 1 && options.shape.kv_heads < ranks ? 2 : 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceShardedStrategy>> DeviceShardedStrategy::Create(
    const v1::TaskOrder& order, const v1::TablesSchema& schema, const DeviceOptions& options,
    DeviceShardedDependencies dependencies) {
  MUSTER_RETURN_IF_ERROR(ReadAdamOptions(schema.optimizer()).status());
  const MeshPosition shard = ShardOf(order);
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<KeptShard> kept,
      KeptShard::Create(
          order, schema,
          {.storage = dependencies.storage, .shard = shard, .log = dependencies.log}));
  const DeviceSlices::Holding divided = {.stage = ZeroStage(order.spec()),
                                         .kept_bytes = KeptGatheredBytes(order.spec())};
  DeviceOptions own = options;
  own.shares = kept->state().tables().tensors;
  MUSTER_ASSIGN_OR_RETURN(DeviceParameters places, DeviceParameters::Create(own.shape, own.shares));
  if (divided.stage > 0) {
    MUSTER_ASSIGN_OR_RETURN(
        own.compute.shard,
        PlanDeviceShard(order.spec(), kept->state().tables().tensors, options.compute.type));
  }
  MUSTER_ASSIGN_OR_RETURN(const uint64_t fingerprint,
                          PlanFingerprint(order.spec(), schema, own, shard));
  return std::unique_ptr<DeviceShardedStrategy>(
      new DeviceShardedStrategy(divided, schema, own, std::move(dependencies), std::move(kept),
                                std::move(places), fingerprint));
}

DeviceShardedStrategy::DeviceShardedStrategy(const DeviceSlices::Holding& divided,
                                             const v1::TablesSchema& schema,
                                             const DeviceOptions& options,
                                             DeviceShardedDependencies dependencies,
                                             std::unique_ptr<KeptShard> kept,
                                             DeviceParameters places, uint64_t fingerprint)
    : divided_(divided),
      schema_(std::make_unique<const v1::TablesSchema>(schema)),
      options_(options),
      dependencies_(std::move(dependencies)),
      kept_(std::move(kept)),
      places_(std::move(places)),
      fingerprint_(fingerprint) {}

DeviceShardedStrategy::~DeviceShardedStrategy() {
  // Not Leave: nobody needs a copy on the host any more.
  EndGroup();
}

void DeviceShardedStrategy::EndPasses() {
  shard_ = nullptr;
  // The device may still make calls of the groups that go next.
  if (passes_ != nullptr) passes_->Stop();
  shared_gradients_ = nullptr;
  slice_ops_ = nullptr;
  tensor_group_ = nullptr;
  passes_ = nullptr;
}

void DeviceShardedStrategy::EndGroup() {
  EndPasses();
  device_tied_ = nullptr;
  device_stages_ = nullptr;
  device_tensor_ = nullptr;
  device_replicas_ = nullptr;
  device_ = nullptr;
  groups_ = nullptr;
}

absl::Status DeviceShardedStrategy::Join(std::unique_ptr<Communicator> communicator,
                                         absl::optional<int> source) {
  Leave();
  const std::vector<TensorSpec>& tensors = kept_->state().tables().tensors;
  MUSTER_ASSIGN_OR_RETURN(
      groups_, RankGroups::Create(std::move(communicator), kept_->state().shard(), tensors));
  // Several shards have no source in common.
  const bool single = kept_->state().shard().mesh.world_size() == 1;
  MUSTER_RETURN_IF_ERROR(
      kept_->Fill(groups_->world(), single ? source : absl::nullopt, groups_->replicas()));
  if (groups_->tied_group() != nullptr) {
    TiedSums tied(*groups_->tied_group(), tensors, options_.timeout);
    MUSTER_RETURN_IF_ERROR(tied.CopyWeights(kept_->state()));
  }
  MUSTER_RETURN_IF_ERROR(MakeCommunicators());
  const DeviceExtents extents = DeviceExtentsOf(options_.shape, places_, options_.compute);
  MUSTER_ASSIGN_OR_RETURN(passes_, DevicePasses::Create(options_.shape, options_.compute, extents));
  if (const absl::Status made = MakeShard(); !made.ok()) {
    // There is nothing on the device that Leave could copy.
    EndPasses();
    return made;
  }
  clock_ = kept_->state().clock();
  moved_ = 0;
  kept_->HandOver();
  return absl::OkStatus();
}

absl::Status DeviceShardedStrategy::MakeCommunicators() {
  const bool divides = divided_.stage > 0;
  Communicator& group = divides ? groups_->shard_group() : groups_->data_group();
  Communicator* const replicas = divides ? groups_->replicas() : nullptr;
  Communicator* const tensor = groups_->tensor_group();
  Communicator* const pipeline = groups_->stage_group();
  Communicator* const tied = groups_->tied_group();
  const int communicators = (group.size() > 1 ? 1 : 0) + (replicas != nullptr ? 1 : 0) +
                            TensorCommunicators(options_) + (pipeline != nullptr ? 1 : 0) +
                            (tied != nullptr ? 1 : 0);
  // Communicators take device memory, too, and cannot wait for it.
  MUSTER_RETURN_IF_ERROR(AwaitDevice(options_, communicators));
  // Slices lie in a communicator's memory, even if this rank has all of them.
  if (divides || group.size() > 1) {
    MUSTER_ASSIGN_OR_RETURN(device_, dependencies_.make_communicator(group));
  }
  if (replicas != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(device_replicas_, dependencies_.make_communicator(*replicas));
  }
  if (tensor != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(device_tensor_, dependencies_.make_communicator(*tensor));
  }
  if (pipeline != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(device_stages_, dependencies_.make_communicator(*pipeline));
  }
  if (tied != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(device_tied_, dependencies_.make_communicator(*tied));
  }
  return communicators == 0 ? absl::OkStatus() : AwaitDevice(options_, communicators);
}

absl::Status DeviceShardedStrategy::MakeTensorGroup() {
  if (device_tensor_ == nullptr) return absl::OkStatus();
  // Failures are the passes'.
  const auto run = [this](Communicator& group, const CollectiveCall& call) {
    passes_->MakeCall(group, call);
    return absl::OkStatus();
  };
  tensor_group_ = std::make_unique<CommunicatorTensorGroup>(*device_tensor_, options_.timeout, run);
  MUSTER_ASSIGN_OR_RETURN(
      slice_ops_, DeviceSliceOps::Create([this]() -> DeviceStream& { return passes_->stream(); }));
  MUSTER_ASSIGN_OR_RETURN(
      shared_gradients_,
      SharedGradients::Create(*device_tensor_, kept_->state().tables().tensors,
                              {.divides_tokens = options_.compute.sequence_parallel,
                               .timeout = options_.timeout,
                               .ops = slice_ops_.get(),
                               .run = run}));
  return absl::OkStatus();
}

absl::Status DeviceShardedStrategy::MakeShard() {
  MUSTER_RETURN_IF_ERROR(MakeTensorGroup());
  if (divided_.stage == 0) {
    MUSTER_ASSIGN_OR_RETURN(shard_, DeviceReplica::Create(options_, places_, *passes_,
                                                          {.host = groups_->world(),
                                                           .device = device_.get(),
                                                           .tied = device_tied_.get(),
                                                           .shard = kept_->state().shard()}));
  } else {
    MUSTER_ASSIGN_OR_RETURN(shard_,
                            DeviceSlices::Create(options_, divided_, kept_->state(), *passes_,
                                                 {.host = groups_->world(),
                                                  .shard_group = *device_,
                                                  .replicas = device_replicas_.get(),
                                                  .tied = device_tied_.get()}));
  }
  return shard_->Upload(kept_->state());
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
  // With one shard in all, all calls but one a step are on the device's communicator.
  if (kept_->state().shard().mesh.world_size() > 1 || device_ == nullptr) {
    recorders.push_back(&groups_->world().recorder());
  }
  for (const Communicator* device : {device_.get(), device_replicas_.get(), device_tensor_.get(),
                                     device_stages_.get(), device_tied_.get()}) {
    if (device != nullptr) recorders.push_back(&device->recorder());
  }
  if (shared_gradients_ != nullptr) {
    for (const FlightRecorder* recorder : shared_gradients_->recorders()) {
      recorders.push_back(recorder);
    }
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
  tensor_counted_ = TensorTraffic();
  stage_counted_ = StageTraffic();
  return shard_->BeginStep();
}

CollectiveTraffic DeviceShardedStrategy::StageTraffic() const {
  CollectiveTraffic sum;
  for (const Communicator* stages : {device_stages_.get(), device_tied_.get()}) {
    if (stages == nullptr) continue;
    sum.sent += stages->traffic().sent;
    sum.received += stages->traffic().received;
  }
  return sum;
}

CollectiveTraffic DeviceShardedStrategy::TensorTraffic() const {
  if (shared_gradients_ == nullptr) return {};
  CollectiveTraffic traffic = shared_gradients_->traffic();
  traffic.sent += device_tensor_->traffic().sent;
  traffic.received += device_tensor_->traffic().received;
  return traffic;
}

absl::Status DeviceShardedStrategy::BeforeBackward(uint64_t examples, SeriesPosition position) {
  position_ = position;
  shard_->BeforeBackward(examples, position);
  return absl::OkStatus();
}

absl::Status DeviceShardedStrategy::GradientReady(int unit) {
  const bool leaves = divided_.stage >= 2 || position_ == SeriesPosition::kLast;
  if (shared_gradients_ != nullptr && leaves) {
    MUSTER_RETURN_IF_ERROR(shared_gradients_->Sum(unit, shard_->gradients()));
    MUSTER_RETURN_IF_ERROR(passes_->status());
  }
  shard_->GradientReady(unit);
  return absl::OkStatus();
}

absl::Status DeviceShardedStrategy::EndStep() {
  const float rate = LearningRate(schema_->schedule(), schema_->optimizer().learning_rate(), clock_,
                                  schema_->total_steps());
  // What tensor ranks gave one another counts only if all of it came.
  if (tensor_group_ != nullptr) MUSTER_RETURN_IF_ERROR(passes_->AwaitCalls());
  const CollectiveTraffic tensor = TensorTraffic();
  counters_.tensor_bytes_sent += tensor.sent - tensor_counted_.sent;
  counters_.tensor_bytes_received += tensor.received - tensor_counted_.received;
  // Bias correction counts clocks, as on processors.
  MUSTER_ASSIGN_OR_RETURN(
      const DeviceUpdateResult result,
      shard_->EndStep({.loss_scale = loss_scale(), .learning_rate = rate, .step = clock_ + 1}));
  const CollectiveTraffic stages = StageTraffic();
  counters_.stage_bytes_sent += stages.sent - stage_counted_.sent;
  counters_.stage_bytes_received += stages.received - stage_counted_.received;
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
