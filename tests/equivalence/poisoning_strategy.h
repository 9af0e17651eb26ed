#ifndef MUSTER_TESTS_EQUIVALENCE_POISONING_STRATEGY_H_
#define MUSTER_TESTS_EQUIVALENCE_POISONING_STRATEGY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"
#include "tests/equivalence/forwarding_strategy.h"

namespace muster {

// The memory where a model computes.
class ComputeMemory {
 public:
  virtual ~ComputeMemory() = default;

  // Returns memory that lives as long as this, and never moves. REQUIRES: bytes > 0.
  virtual void* Allocate(size_t bytes) = 0;

  // Copy bytes, and set all their bits, which is a NaN in every type: now, or between what was
  // computed so far and what comes next.
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;
  virtual void Poison(void* to, size_t bytes) = 0;
};

// Returns the memory of this process, where processors compute.
std::unique_ptr<ComputeMemory> MakeHostMemory();

// Hands out copies of another strategy's parameters, and fills memory with NaN wherever strategy.h
// promises nothing about its content:
//   parameters  before Acquire and from Release on, in f32 and in 16 bits;
//   gradients   before the first unit that is to write them in a micro-batch, unless the passes of
//               micro-batches alternate, as in a pipeline.
// So a unit that reads what it has not acquired, or adds where it is to write, fails its test, and
// so does a server that still reads the gradients of the last step. Fails the test, too, where
// calls of Acquire and Release do not alternate, or a step begins or ends, or a unit's gradients
// are ready, before the release.
class PoisoningStrategy final : public ForwardingStrategy {
 public:
  enum class Passes { kOneAfterAnother, kAlternate };

  // `tensors` are the model's. Both outlive this. `memory` is where the model computes, `passes`
  // how those of micro-batches follow one another.
  PoisoningStrategy(Strategy& inner, const std::vector<TensorSpec>& tensors,
                    std::unique_ptr<ComputeMemory> memory = MakeHostMemory(),
                    Passes passes = Passes::kOneAfterAnother);

  absl::Status BeginStep(uint64_t clock) override;
  absl::Status Acquire(int unit, Direction direction) override;
  void Release(int unit, Direction direction) override;
  ModelParameters parameters() const override { return {value_spans_, rounded_pointers_}; }
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override;
  absl::Status GradientReady(int unit) override;
  absl::Status EndStep() override;

 private:
  void Poison(size_t tensor);
  // Poisons the gradients that the unit is the first to write.
  void PoisonGradients(int unit);
  void ExpectNoneAcquired() const;

  const std::vector<TensorSpec>& tensors_;
  const Passes passes_;
  const std::unique_ptr<ComputeMemory> memory_;
  // By tensor; of those that are computed with in f32 there are no 16-bit copies.
  std::vector<float*> values_;
  std::vector<void*> rounded_;
  std::vector<absl::Span<const float>> value_spans_;
  std::vector<const void*> rounded_pointers_;
  // By tensor, the unit that is the first in backward to write its gradient: its own, or one with a
  // tensor that is tied to it; -1 for a tied tensor.
  std::vector<int> first_writers_;
  // By unit.
  std::vector<bool> acquired_;
  // True from BeforeBackward until the first unit's gradients are ready.
  bool in_backward_ = false;
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_POISONING_STRATEGY_H_
