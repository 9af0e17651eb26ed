#include "worker/strategy/verified_step.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/partition/verified_places.h"

namespace muster {

VerifiedStep::VerifiedStep(Strategy& inner, absl::Span<const TensorSpec> tensors,
                           bool sends_micro_batches)
    : inner_(inner), tensors_(tensors), sends_micro_batches_(sends_micro_batches) {}

void VerifiedStep::Begin(Share share) {
  share_ = share;
  micro_batches_ = 0;
  seen_ = std::make_unique<FingerprintStream>();
  if (share == Share::kAnother) return MakeScratch();
  ready_.clear();
  pushed_ = nullptr;
}

void VerifiedStep::MakeScratch() {
  if (memory_ != nullptr) return;
  std::vector<uint64_t> elements;
  for (const absl::Span<float> gradient : inner_.gradients()) elements.push_back(gradient.size());
  const VerifiedPlaces places = PlacesOfVerified(
      tensors_, elements, sends_micro_batches_ ? UnitsAtOnce::kOne : UnitsAtOnce::kAll);
  memory_ = std::make_unique<Arena>(places.elements);
  for (size_t i = 0; i < elements.size(); ++i) {
    scratch_.push_back(memory_->values().subspan(places.begins[i], elements[i]));
  }
}

void VerifiedStep::Look(absl::Span<const float> values) {
  seen_->Add(values.data(), values.size() * sizeof(float));
}

uint64_t VerifiedStep::Fingerprint() {
  if (!sends_micro_batches_) {
    for (const absl::Span<float> gradient : gradients()) Look(gradient);
  }
  return seen_->Finish();
}

absl::Status VerifiedStep::BeginStep(uint64_t clock) {
  return share_ == Share::kOwn ? inner_.BeginStep(clock) : absl::OkStatus();
}

absl::Status VerifiedStep::Acquire(int unit, Direction direction) {
  // A forward pass waits for no memory of gradients.
  return inner_.Acquire(unit, share_ == Share::kOwn ? direction : Direction::kForward);
}

void VerifiedStep::Release(int unit, Direction direction) {
  inner_.Release(unit, share_ == Share::kOwn ? direction : Direction::kForward);
}

absl::Status VerifiedStep::BeforeBackward(uint64_t examples, SeriesPosition position) {
  ++micro_batches_;
  position_ = position;
  return share_ == Share::kOwn ? inner_.BeforeBackward(examples, position) : absl::OkStatus();
}

Accumulation VerifiedStep::GradientStore(int unit) const {
  if (share_ == Share::kOwn) return inner_.GradientStore(unit);
  return sends_micro_batches_ || micro_batches_ == 1 ? Accumulation::kWrite : Accumulation::kAdd;
}

GradientSpans VerifiedStep::gradients() const {
  return share_ == Share::kOwn ? inner_.gradients() : GradientSpans(scratch_);
}

absl::Status VerifiedStep::GradientReady(int unit) {
  if (sends_micro_batches_) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (static_cast<int>(tensors_[i].unit) == unit) Look(gradients()[i]);
    }
    return share_ == Share::kOwn ? inner_.GradientReady(unit) : absl::OkStatus();
  }
  if (share_ == Share::kAnother) return absl::OkStatus();
  if (position_ == SeriesPosition::kMoreFollow) return inner_.GradientReady(unit);
  ready_.push_back(unit);
  return absl::OkStatus();
}

absl::Status VerifiedStep::PushRows(MicroBatch& micro_batch) {
  for (const SparseRows& rows : micro_batch.sparse) {
    seen_->Add(rows.keys.data(), rows.keys.size() * sizeof(uint64_t));
    Look(rows.gradients);
  }
  if (share_ == Share::kAnother) return absl::OkStatus();
  if (position_ == SeriesPosition::kMoreFollow) return inner_.PushRows(micro_batch);
  // Other shares are computed in the same micro-batch.
  pushed_ = &micro_batch;
  pushed_rows_.resize(micro_batch.sparse.size());
  for (size_t table = 0; table < pushed_rows_.size(); ++table) {
    pushed_rows_[table].keys = micro_batch.sparse[table].keys;
    pushed_rows_[table].gradients = micro_batch.sparse[table].gradients;
  }
  return absl::OkStatus();
}

absl::Status VerifiedStep::Send() {
  for (const int unit : ready_) MUSTER_RETURN_IF_ERROR(inner_.GradientReady(unit));
  if (pushed_ != nullptr) {
    for (size_t table = 0; table < pushed_rows_.size(); ++table) {
      std::swap(pushed_->sparse[table].keys, pushed_rows_[table].keys);
      std::swap(pushed_->sparse[table].gradients, pushed_rows_[table].gradients);
    }
    MUSTER_RETURN_IF_ERROR(inner_.PushRows(*pushed_));
  }
  return inner_.EndStep();
}

}  // namespace muster
