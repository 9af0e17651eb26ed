#include "worker/strategy/servers/dense_pushes.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/partition/wire_dtype.h"
#include "proto/parameter_service.pb.h"
#include "worker/strategy/blocked_time.h"

namespace muster {
namespace {

constexpr UnitPlaces::Holding kInFlight = UnitPlaces::Holding::kInFlight;

std::unique_ptr<GradientPlaces> PlacesFor(const DensePushes::Parts& parts,
                                          const DensePushes::Options& options) {
  if (options.holding != kInFlight) return nullptr;
  return std::make_unique<GradientPlaces>(parts.layout, parts.tensors, options.registered_memory);
}

}  // namespace

DensePushes::DensePushes(const Parts& parts, const Options& options)
    : parts_(parts),
      options_(options),
      places_(PlacesFor(parts, options)),
      // If pushes are rounded, servers read the rounded values, not the arenas.
      arenas_(parts.layout.elements(), options.arenas,
              options.wire == DType::kF32 ? options.registered_memory : nullptr),
      gradients_(parts.tensors.size()) {
  if (places_ != nullptr) {
    gradients_.assign(places_->gradients().begin(), places_->gradients().end());
  }
  if (options.wire != DType::kF32 && parts.layout.elements() > 0) {
    residual_ = std::make_unique<DenseResidual>(parts.layout, options.wire, options.arenas,
                                                options.registered_memory);
  }
}

void DensePushes::BeginStep() {
  withdrawn_ = false;
  if (places_ != nullptr) return;
  {
    const BlockedTime blocked(parts_.clock, parts_.counters.exposed_seconds);
    arena_ = arenas_.Acquire();
    if (residual_ != nullptr) residual_->BeginStep();
  }
  gradients_ = TensorSpans(parts_.layout, parts_.tensors, arena_->values());
}

absl::Status DensePushes::AwaitOldest() {
  {
    const BlockedTime blocked(parts_.clock, parts_.counters.exposed_seconds);
    MUSTER_RETURN_IF_ERROR(parts_.router.Wait(pushes_.front().push.operation));
  }
  pushed_bytes_ -= BytesOf(*pushes_.front().push.run);
  pushes_.pop_front();
  return absl::OkStatus();
}

absl::Status DensePushes::AwaitPlace(int unit) {
  while (std::any_of(pushes_.begin(), pushes_.end(),
                     [&](const UnitPush& push) { return places_->SharePlace(push.unit, unit); })) {
    MUSTER_RETURN_IF_ERROR(AwaitOldest());
  }
  const BlockedTime blocked(parts_.clock, parts_.counters.exposed_seconds);
  places_->AwaitReaders(unit);
  return absl::OkStatus();
}

absl::Status DensePushes::BeforeWrite(int unit) {
  if (places_ == nullptr || unit >= static_cast<int>(parts_.runs.size())) return absl::OkStatus();
  for (const int tied : places_->tied_units(unit)) MUSTER_RETURN_IF_ERROR(AwaitPlace(tied));
  return AwaitPlace(unit);
}

Payload DensePushes::GradientOf(int unit, const DenseRun& run) {
  const absl::Span<float> values = places_ != nullptr
                                       ? places_->values(run)
                                       : arena_->values().subspan(run.begin, run.elements());
  if (withdrawn_) {
    SetToZero(static_cast<int64_t>(values.size()), values.data());
  } else if (TypeOf(run) != DType::kF32) {
    return residual_->Round(run, arena_->values());
  }
  if (places_ != nullptr) return places_->Read(unit, run);
  // Withdrawn gradients are pushed as zeros, in the wire's type.
  const Payload::Span span(reinterpret_cast<const std::byte*>(values.data()), BytesOf(run));
  return Payload({span}, arena_);
}

absl::Status DensePushes::Push(int unit, const Contribution& contribution) {
  uint64_t bytes = 0;
  for (const DenseRun& run : parts_.runs[unit]) bytes += run.pushed() ? BytesOf(run) : 0;
  while (!pushes_.empty() && pushed_bytes_ + bytes > options_.window_bytes) {
    MUSTER_RETURN_IF_ERROR(AwaitOldest());
  }
  for (const DenseRun& run : parts_.runs[unit]) {
    if (!run.pushed()) continue;
    v1::ExchangeRequest request;
    request.set_clock(contribution.clock);
    v1::DensePush& push = *request.mutable_dense_push();
    push.set_first_block(run.first_block);
    push.set_blocks(run.blocks);
    push.set_examples(withdrawn_ ? 0 : contribution.examples);
    push.set_type(static_cast<v1::UpdateSpec::WireType>(WireTypeOf(TypeOf(run))));
    push.set_micro_batch(contribution.micro_batch);
    push.set_withdrawn(withdrawn_);
    push.set_absent(contribution.absent);
    Payload payload = contribution.absent ? Payload() : GradientOf(unit, run);
    parts_.counters.bytes_pushed += payload.size();
    ShardRouter::Handle operation = parts_.router.Send(
        run.partition, std::move(request), std::move(payload), ShardRouter::Order::kLane);
    pushes_.push_back({unit, {&run, operation}});
    pushed_bytes_ += BytesOf(run);
    if (residual_ != nullptr && !withdrawn_ && !contribution.absent && first_step_) {
      first_pushes_.push_back({&run, std::move(operation)});
    }
  }
  return absl::OkStatus();
}

void DensePushes::EndStep() {
  arena_.reset();
  if (residual_ != nullptr) residual_->EndStep();
}

absl::Status DensePushes::AwaitAll() {
  while (!pushes_.empty()) MUSTER_RETURN_IF_ERROR(AwaitOldest());
  return absl::OkStatus();
}

void DensePushes::TakeAnswers() {
  pushes_.clear();
  pushed_bytes_ = 0;
  // If the former task of this slot had pushed this clock already, that push stands, and this
  // task's rounding error must not be carried over.
  for (const DenseOperation& push : first_pushes_) {
    if (push.operation->was_in()) residual_->Clear(*push.run);
  }
  first_pushes_.clear();
  first_step_ = false;
}

}  // namespace muster
