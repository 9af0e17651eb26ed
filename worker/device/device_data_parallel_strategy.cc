#include "worker/device/device_data_parallel_strategy.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/optim/optimizer_options.h"
#include "common/optim/schedule.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/device/await_device.h"
#include "worker/device/device_memory_plan.h"
#include "worker/device/replica_copy.h"
#include "worker/nn/diverged_error.h"
#include "worker/nn/loss_scaling.h"
#include "worker/strategy/group/bucket_plan.h"

namespace muster {

absl::StatusOr<std::unique_ptr<DeviceDataParallelStrategy>> DeviceDataParallelStrategy::Create(
    const v1::TaskOrder& order, const v1::TablesSchema& schema, const DeviceOptions& options,
    DeviceDataParallelDependencies dependencies) {
  MUSTER_RETURN_IF_ERROR(ReadAdamOptions(schema.optimizer()).status());
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<KeptShard> kept,
      KeptShard::Create(order, schema, {.storage = dependencies.storage, .log = dependencies.log}));
  MUSTER_ASSIGN_OR_RETURN(DeviceParameters places, DeviceParameters::Create(options.shape));
  return std::unique_ptr<DeviceDataParallelStrategy>(new DeviceDataParallelStrategy(
      schema, options, std::move(dependencies), std::move(kept), std::move(places)));
}

DeviceDataParallelStrategy::DeviceDataParallelStrategy(const v1::TablesSchema& schema,
                                                       const DeviceOptions& options,
                                                       DeviceDataParallelDependencies dependencies,
                                                       std::unique_ptr<KeptShard> kept,
                                                       DeviceParameters places)
    : schema_(std::make_unique<const v1::TablesSchema>(schema)),
      options_(options),
      dependencies_(std::move(dependencies)),
      kept_(std::move(kept)),
      places_(std::move(places)),
      fingerprint_(BucketPlanFingerprint(
          MakeBucketPlan(places_.layout(), places_.padded(), options.buckets))) {}

DeviceDataParallelStrategy::~DeviceDataParallelStrategy() {
  // Not Leave: nobody needs a copy on the host any more.
  EndGroup();
}

void DeviceDataParallelStrategy::EndGroup() {
  update_ = nullptr;
  spaces_ = nullptr;
  passes_ = nullptr;
  device_ = nullptr;
  host_ = nullptr;
}

absl::Status DeviceDataParallelStrategy::Join(std::unique_ptr<Communicator> communicator,
                                              absl::optional<int> source) {
  Leave();
  host_ = std::move(communicator);
  MUSTER_RETURN_IF_ERROR(kept_->Fill(*host_, source));
  // The communicator takes device memory, too, and cannot wait for it.
  MUSTER_RETURN_IF_ERROR(AwaitDevice(options_, host_->size()));
  if (host_->size() > 1) {
    MUSTER_ASSIGN_OR_RETURN(device_, dependencies_.make_communicator(*host_));
    MUSTER_RETURN_IF_ERROR(AwaitDevice(options_, host_->size()));
  }
  const DeviceExtents extents = DeviceExtentsOf(options_.shape, places_, options_.compute);
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DevicePasses> passes,
                          DevicePasses::Create(options_.shape, options_.compute, extents));
  MUSTER_ASSIGN_OR_RETURN(
      spaces_, DeviceSpaces::Create(places_, options_.compute, extents, passes->stream()));
  MUSTER_RETURN_IF_ERROR(CopyToDevice(kept_->state(), passes->stream(), *spaces_));
  MUSTER_ASSIGN_OR_RETURN(update_, DeviceUpdate::Create(options_, *passes, *spaces_,
                                                        {.host = *host_, .device = device_.get()}));
  clock_ = kept_->state().clock();
  moved_ = 0;
  gradients_are_zero_ = false;
  passes_ = std::move(passes);
  kept_->HandOver();
  return absl::OkStatus();
}

void DeviceDataParallelStrategy::Leave() {
  // After an error there is no replica any more, and replica_clock() says so.
  if (passes_ != nullptr) Download().IgnoreError();
  counters_ = counters();
  EndGroup();
}

absl::Status DeviceDataParallelStrategy::Download() {
  return kept_->TakeBack([this](ShardState& replica) -> absl::Status {
    MUSTER_RETURN_IF_ERROR(CopyFromDevice(passes_->stream(), *spaces_, replica));
    for (uint64_t& steps : replica.state().steps) steps += moved_;
    moved_ = 0;
    replica.set_clock(clock_);
    return absl::OkStatus();
  });
}

absl::optional<uint64_t> DeviceDataParallelStrategy::replica_clock() const {
  if (passes_ != nullptr) return clock_;
  return kept_->clock();
}

const Communicator* DeviceDataParallelStrategy::communicator() const {
  return device_ != nullptr ? device_.get() : host_.get();
}

std::vector<const FlightRecorder*> DeviceDataParallelStrategy::recorders() const {
  if (communicator() == nullptr) return {};
  return {&communicator()->recorder()};
}

absl::StatusOr<uint64_t> DeviceDataParallelStrategy::Start() {
  if (passes_ == nullptr) {
    return absl::FailedPreconditionError("a replica starts before it joined the other workers");
  }
  return clock_;
}

absl::Status DeviceDataParallelStrategy::BeginStep(uint64_t clock) {
  if (clock != clock_) {
    return absl::FailedPreconditionError(
        absl::StrCat("a step begins at clock ", clock, ", but the replica is at ", clock_));
  }
  examples_ = 0;
  if (!std::exchange(gradients_are_zero_, true)) spaces_->ZeroGradients(passes_->stream());
  return passes_->status();
}

absl::Status DeviceDataParallelStrategy::BeforeBackward(uint64_t examples,
                                                        SeriesPosition position) {
  examples_ += examples;
  position_ = position;
  gradients_are_zero_ = false;
  if (position == SeriesPosition::kLast) update_->SumExamples(examples_);
  return absl::OkStatus();
}

absl::Status DeviceDataParallelStrategy::GradientReady(int unit) {
  if (position_ == SeriesPosition::kLast) update_->UnitReady(unit);
  return absl::OkStatus();
}

absl::Status DeviceDataParallelStrategy::EndStep() {
  const float rate = LearningRate(schema_->schedule(), schema_->optimizer().learning_rate(), clock_,
                                  schema_->total_steps());
  // Bias correction counts clocks, as on processors.
  MUSTER_ASSIGN_OR_RETURN(const DeviceUpdateResult result,
                          update_->Run(loss_scale(), rate, clock_ + 1));
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

absl::StatusOr<CutFiles> DeviceDataParallelStrategy::Cut(uint64_t clock) {
  if (passes_ == nullptr || clock != clock_) {
    return absl::FailedPreconditionError(
        absl::StrCat("a cut at clock ", clock, " was asked for, but the replica is at ", clock_));
  }
  MUSTER_RETURN_IF_ERROR(Download());
  absl::StatusOr<CutFiles> files = kept_->Cut(*host_, /*first_number=*/0, /*failure=*/"");
  kept_->HandOver();
  return files;
}

absl::StatusOr<CutEnd> DeviceDataParallelStrategy::EndCut(CutEnd mine) {
  return kept_->EndCut(*host_, mine);
}

StrategyCounters DeviceDataParallelStrategy::counters() const {
  StrategyCounters counters = counters_;
  if (device_ != nullptr && update_ != nullptr) {
    counters.bytes_sent += device_->traffic().sent;
    counters.bytes_received += device_->traffic().received;
    counters.other_bytes_sent += update_->examples_traffic().sent;
    counters.other_bytes_received += update_->examples_traffic().received;
  }
  return counters;
}

}  // namespace muster
