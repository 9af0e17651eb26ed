#include "tests/equivalence/poisoning_strategy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"

namespace muster {
namespace {

class HostMemory final : public ComputeMemory {
 public:
  void* Allocate(size_t bytes) override {
    blocks_.push_back(std::make_unique<std::byte[]>(bytes));
    return blocks_.back().get();
  }
  void Copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Poison(void* to, size_t bytes) override {
    if (bytes > 0) std::memset(to, 0xff, bytes);
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

size_t RoundedBytes(const TensorSpec& tensor) { return tensor.elements() * sizeof(uint16_t); }

}  // namespace

std::unique_ptr<ComputeMemory> MakeHostMemory() { return std::make_unique<HostMemory>(); }

PoisoningStrategy::PoisoningStrategy(Strategy& inner, const std::vector<TensorSpec>& tensors,
                                     std::unique_ptr<ComputeMemory> memory, Passes passes)
    : ForwardingStrategy(inner), tensors_(tensors), passes_(passes), memory_(std::move(memory)) {
  for (const TensorSpec& tensor : tensors) {
    const size_t elements = tensor.elements();
    values_.push_back(static_cast<float*>(memory_->Allocate(elements * sizeof(float))));
    value_spans_.emplace_back(values_.back(), elements);
    rounded_.push_back(tensor.compute == DType::kF32 ? nullptr
                                                     : memory_->Allocate(RoundedBytes(tensor)));
    rounded_pointers_.push_back(rounded_.back());
    acquired_.resize(std::max<size_t>(acquired_.size(), tensor.unit + 1));
    first_writers_.push_back(tensor.tied_to.empty() ? static_cast<int>(tensor.unit) : -1);
  }
  for (const TensorSpec& tied : tensors) {
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (tied.tied_to != tensors[t].name) continue;
      first_writers_[t] = std::max(first_writers_[t], static_cast<int>(tied.unit));
    }
  }
  for (size_t t = 0; t < tensors.size(); ++t) Poison(t);
}

void PoisoningStrategy::Poison(size_t tensor) {
  memory_->Poison(values_[tensor], value_spans_[tensor].size() * sizeof(float));
  if (rounded_[tensor] == nullptr) return;
  memory_->Poison(rounded_[tensor], RoundedBytes(tensors_[tensor]));
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
    memory_->Copy(values_[t], inner.values[t].data(), inner.values[t].size() * sizeof(float));
    if (rounded_[t] == nullptr) continue;
    memory_->Copy(rounded_[t], inner.rounded[t], RoundedBytes(tensors_[t]));
  }
  // A pass that acquires for kForward writes no gradients here.
  if (in_backward_ && direction == Direction::kBackward) PoisonGradients(unit);
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
  if (!status.ok() || passes_ == Passes::kAlternate) return status;
  in_backward_ = true;
  for (size_t unit = 0; unit < acquired_.size(); ++unit) {
    if (acquired_[unit]) PoisonGradients(static_cast<int>(unit));
  }
  return status;
}

void PoisoningStrategy::PoisonGradients(int unit) {
  if (GradientStore(unit) != Accumulation::kWrite) return;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (first_writers_[t] != unit) continue;
    memory_->Poison(gradients()[t].data(), gradients()[t].size() * sizeof(float));
  }
}

absl::Status PoisoningStrategy::GradientReady(int unit) {
  if (unit < static_cast<int>(acquired_.size())) {
    EXPECT_FALSE(acquired_[unit]) << "unit " << unit;
  }
  if (unit == 0) in_backward_ = false;
  return ForwardingStrategy::GradientReady(unit);
}

absl::Status PoisoningStrategy::EndStep() {
  ExpectNoneAcquired();
  return ForwardingStrategy::EndStep();
}

}  // namespace muster
