#include "worker/device/device_replica.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/optim/schedule.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/device/await_device.h"
#include "worker/strategy/bucket_plan.h"

namespace muster {

absl::StatusOr<std::unique_ptr<DeviceReplica>> DeviceReplica::Create(
    const v1::TaskOrder& order, const v1::TablesSchema& schema, const DeviceTrainerOptions& options,
    DeviceReplicaDependencies dependencies) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<KeptReplica> kept,
                          KeptReplica::Create(order, schema, {.storage = dependencies.storage}));
  MUSTER_ASSIGN_OR_RETURN(const DeviceParameters parameters,
                          DeviceParameters::Create(options.shape));
  const uint64_t fingerprint = BucketPlanFingerprint(
      MakeBucketPlan(parameters.layout(), parameters.padded(), options.buckets));
  return std::unique_ptr<DeviceReplica>(
      new DeviceReplica(schema, options, std::move(dependencies), std::move(kept), fingerprint));
}

DeviceReplica::DeviceReplica(const v1::TablesSchema& schema, const DeviceTrainerOptions& options,
                             DeviceReplicaDependencies dependencies,
                             std::unique_ptr<KeptReplica> kept, uint64_t fingerprint)
    : schema_(std::make_unique<const v1::TablesSchema>(schema)),
      options_(options),
      dependencies_(std::move(dependencies)),
      kept_(std::move(kept)),
      fingerprint_(fingerprint) {}

DeviceReplica::~DeviceReplica() {
  // Not Leave: nobody needs the host's copy any more.
  trainer_ = nullptr;
  device_ = nullptr;
}

absl::Status DeviceReplica::Join(std::unique_ptr<Communicator> communicator,
                                 absl::optional<int> source) {
  Leave();
  host_ = std::move(communicator);
  MUSTER_RETURN_IF_ERROR(kept_->Fill(*host_, source));
  MUSTER_RETURN_IF_ERROR(AgreeOnLossScale());
  if (host_->size() > 1) {
    // The communicator takes some too, and cannot wait for it.
    MUSTER_RETURN_IF_ERROR(AwaitDevice(options_, host_->size()));
    MUSTER_ASSIGN_OR_RETURN(device_, dependencies_.make_communicator(*host_));
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DeviceTrainer> trainer,
                          DeviceTrainer::Create(options_, device_.get()));
  MUSTER_RETURN_IF_ERROR(CopyToDevice(kept_->replica(), *trainer));
  // With the weights there: on zeros a device is faster than it will be.
  MUSTER_RETURN_IF_ERROR(trainer->WarmUp());
  clock_ = kept_->replica().clock();
  moved_ = 0;
  trainer_ = std::move(trainer);
  return absl::OkStatus();
}

absl::Status DeviceReplica::AgreeOnLossScale() {
  if (options_.compute.type != DType::kF16 || options_.loss_scale.fixed != 0) {
    return absl::OkStatus();
  }
  // Scale and steps; infinite where a rank has none.
  constexpr double kNone = std::numeric_limits<double>::infinity();
  double least[2] = {kNone, kNone};
  if (const absl::optional<LossScale> mine = kept_->loss_scale()) {
    least[0] = mine->scale;
    least[1] = mine->steps;
  }
  CollectiveCall call;
  call.kind = Collective::kAllReduce;
  call.reduction = Reduction::kMin;
  call.dtype = DType::kF64;
  call.in = call.out = least;
  call.count = 2;
  call.timeout = options_.timeout;
  call.label = "loss scale";
  MUSTER_RETURN_IF_ERROR(host_->Run(call));
  if (least[0] < kNone) {
    kept_->set_loss_scale(
        {.scale = static_cast<float>(least[0]), .steps = static_cast<uint32_t>(least[1])});
  }
  return absl::OkStatus();
}

void DeviceReplica::Leave() {
  if (trainer_ != nullptr && !Download().ok()) kept_->Forget();
  counters_ = counters();
  trainer_ = nullptr;
  device_ = nullptr;
  host_ = nullptr;
}

absl::Status DeviceReplica::Download() {
  Replica& replica = kept_->replica();
  if (replica.clock() == clock_) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(CopyFromDevice(*trainer_, replica));
  for (uint64_t& steps : replica.state().steps) steps += moved_;
  moved_ = 0;
  replica.set_clock(clock_);
  return absl::OkStatus();
}

absl::optional<uint64_t> DeviceReplica::replica_clock() const {
  if (trainer_ != nullptr) return clock_;
  return kept_->clock();
}

const Communicator* DeviceReplica::communicator() const {
  return device_ != nullptr ? device_.get() : host_.get();
}

absl::StatusOr<uint64_t> DeviceReplica::Start() {
  if (trainer_ == nullptr) {
    return absl::FailedPreconditionError("a replica starts before it joined the other workers");
  }
  return clock_;
}

absl::StatusOr<DeviceStepResult> DeviceReplica::EndStep() {
  // Bias correction counts clocks, as on processors.
  trainer_->set_steps(clock_);
  MUSTER_ASSIGN_OR_RETURN(
      const DeviceStepResult result,
      trainer_->EndStep(LearningRate(schema_->schedule(), schema_->optimizer().learning_rate(),
                                     clock_, schema_->total_steps())));
  ++clock_;
  if (!result.skipped) ++moved_;
  return result;
}

absl::StatusOr<CutFiles> DeviceReplica::Cut(uint64_t clock) {
  if (trainer_ == nullptr || clock != clock_) {
    return absl::FailedPreconditionError(
        absl::StrCat("a cut at clock ", clock, " was asked for, but the replica is at ", clock_));
  }
  MUSTER_RETURN_IF_ERROR(Download());
  return kept_->Cut(*host_, /*first_number=*/0, /*failure=*/"");
}

absl::StatusOr<CutEnd> DeviceReplica::EndCut(CutEnd mine) { return kept_->EndCut(*host_, mine); }

StrategyCounters DeviceReplica::counters() const {
  StrategyCounters counters = counters_;
  if (device_ != nullptr) {
    const CollectiveTraffic all = device_->traffic();
    const CollectiveTraffic sums = trainer_ != nullptr ? trainer_->sums_traffic() : all;
    counters.bytes_sent += all.sent - sums.sent;
    counters.bytes_received += all.received - sums.received;
    counters.other_bytes_sent += sums.sent;
    counters.other_bytes_received += sums.received;
  }
  return counters;
}

}  // namespace muster
