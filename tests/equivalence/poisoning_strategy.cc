#include "tests/equivalence/poisoning_strategy.h"

#include <algorithm>
#include <limits>

#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
// A NaN of bf16 and of f16.
constexpr uint16_t kRoundedNaN = 0x7fff;

}  // namespace

PoisoningStrategy::PoisoningStrategy(Strategy& inner, const std::vector<TensorSpec>& tensors)
    : ForwardingStrategy(inner), tensors_(tensors) {
  for (size_t t = 0; t < tensors.size(); ++t) {
    const bool rounded = tensors[t].compute != DType::kF32;
    values_.emplace_back(tensors[t].elements());
    rounded_.emplace_back(rounded ? tensors[t].elements() : 0);
    acquired_.resize(std::max<size_t>(acquired_.size(), tensors[t].unit + 1));
    Poison(t);
  }
  for (size_t t = 0; t < tensors.size(); ++t) {
    value_spans_.push_back(values_[t]);
    rounded_pointers_.push_back(rounded_[t].empty() ? nullptr : rounded_[t].data());
  }
}

void PoisoningStrategy::Poison(size_t tensor) {
  std::fill(values_[tensor].begin(), values_[tensor].end(), kNaN);
  std::fill(rounded_[tensor].begin(), rounded_[tensor].end(), kRoundedNaN);
}

void PoisoningStrategy::ExpectNoneAcquired() const {
  for (size_t unit = 0; unit < acquired_.size(); ++unit) {
    EXPECT_FALSE(acquired_[unit]) << "unit " << unit;
  }
}

absl::Status PoisoningStrategy::BeginStep(uint64_t clock) {
  ExpectNoneAcquired();
  return ForwardingStrategy::BeginStep(clock);
}

absl::Status PoisoningStrategy::Acquire(int unit, Direction direction) {
  const absl::Status status = ForwardingStrategy::Acquire(unit, direction);
  // Units behind the last tensor have nothing to acquire.
  if (!status.ok() || unit >= static_cast<int>(acquired_.size())) return status;
  EXPECT_FALSE(acquired_[unit]) << "unit " << unit;
  acquired_[unit] = true;
  const ModelParameters inner = ForwardingStrategy::parameters();
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (static_cast<int>(tensors_[t].unit) != unit) continue;
    std::copy(inner.values[t].begin(), inner.values[t].end(), values_[t].begin());
    const auto* rounded = static_cast<const uint16_t*>(inner.rounded[t]);
    std::copy_n(rounded, rounded_[t].size(), rounded_[t].begin());
  }
  return status;
}

void PoisoningStrategy::Release(int unit, Direction direction) {
  if (unit < static_cast<int>(acquired_.size())) {
    EXPECT_TRUE(acquired_[unit]) << "unit " << unit;
    acquired_[unit] = false;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      if (static_cast<int>(tensors_[t].unit) == unit) Poison(t);
    }
  }
  ForwardingStrategy::Release(unit, direction);
}

absl::Status PoisoningStrategy::BeforeBackward(uint64_t examples, SeriesPosition position) {
  const absl::Status status = ForwardingStrategy::BeforeBackward(examples, position);
  if (!status.ok()) return status;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (GradientStore(static_cast<int>(tensors_[t].unit)) != Accumulation::kWrite) continue;
    std::fill(gradients()[t].begin(), gradients()[t].end(), kNaN);
  }
  return status;
}

absl::Status PoisoningStrategy::GradientReady(int unit) {
  if (unit < static_cast<int>(acquired_.size())) {
    EXPECT_FALSE(acquired_[unit]) << "unit " << unit;
  }
  return ForwardingStrategy::GradientReady(unit);
}

absl::Status PoisoningStrategy::EndStep() {
  ExpectNoneAcquired();
  return ForwardingStrategy::EndStep();
}

}  // namespace muster
