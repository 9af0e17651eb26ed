#ifndef MUSTER_TESTS_EQUIVALENCE_STEP_OBSERVER_H_
#define MUSTER_TESTS_EQUIVALENCE_STEP_OBSERVER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/collectives/collective.h"
#include "common/tensor/dtype.h"
#include "tests/equivalence/forwarding_strategy.h"
#include "worker/nn/model.h"
#include "worker/runtime/training/step_engine.h"

namespace muster {

// A pull (kReceive) or push (kSend) of dense blocks of a partition.
struct DenseRequest {
  Collective kind = Collective::kReceive;
  DType dtype = DType::kF32;
  uint32_t partition = 0;
  uint32_t first_block = 0;
  uint32_t blocks = 0;
};

// Sees what each slot's steps come to, on the slot's own thread. This one looks at nothing.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // A unit was acquired, and its parameters are these, by tensor; or it was released.
  virtual void Acquired(uint32_t slot, int unit, Direction direction,
                        const ModelParameters& parameters) {}
  virtual void Released(uint32_t slot, int unit, Direction direction) {}

  // The slot's sums of the unit's gradients, times the loss scale, are whole, and nothing of them
  // has left yet.
  virtual void GradientReady(uint32_t slot, uint64_t clock, int unit, float loss_scale,
                             GradientSpans gradients) {}

  // The slot's task sends this to a server, perhaps not in a step.
  virtual void Sent(uint32_t slot, const DenseRequest& request) {}

  virtual void StepEnded(uint32_t slot, uint64_t clock, const StepSums& sums) {}
};

// Shows an observer what a strategy gives a model to read, and the gradients that it is given.
class ObservedStrategy final : public ForwardingStrategy {
 public:
  // Both must outlive this one.
  ObservedStrategy(Strategy& inner, uint32_t slot, StepObserver& observer)
      : ForwardingStrategy(inner), slot_(slot), observer_(observer) {}

  absl::Status BeginStep(uint64_t clock) override {
    clock_ = clock;
    return ForwardingStrategy::BeginStep(clock);
  }
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override {
    last_ = position == SeriesPosition::kLast;
    return ForwardingStrategy::BeforeBackward(examples, position);
  }
  absl::Status Acquire(int unit, Direction direction) override {
    const absl::Status status = ForwardingStrategy::Acquire(unit, direction);
    if (status.ok()) observer_.Acquired(slot_, unit, direction, parameters());
    return status;
  }
  void Release(int unit, Direction direction) override {
    ForwardingStrategy::Release(unit, direction);
    observer_.Released(slot_, unit, direction);
  }
  absl::Status GradientReady(int unit) override {
    if (last_) observer_.GradientReady(slot_, clock_, unit, loss_scale(), gradients());
    return ForwardingStrategy::GradientReady(unit);
  }

 private:
  const uint32_t slot_;
  StepObserver& observer_;
  uint64_t clock_ = 0;
  bool last_ = false;
};

// Shows an observer the sums of an engine's steps.
class ObservedEngine final : public StepEngine {
 public:
  // Both must outlive this one.
  ObservedEngine(StepEngine& inner, uint32_t slot, StepObserver& observer)
      : inner_(inner), slot_(slot), observer_(observer) {}

  int64_t most_examples() const override { return inner_.most_examples(); }
  absl::Status Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) override {
    const absl::Status status = inner_.Train(clock, micro_batches, sums);
    if (status.ok()) observer_.StepEnded(slot_, clock, sums);
    return status;
  }
  absl::Status TrainVerified(uint64_t clock, MicroBatchSource& micro_batches, StepCheck& check,
                             StepSums& sums) override {
    const absl::Status status = inner_.TrainVerified(clock, micro_batches, check, sums);
    if (status.ok()) observer_.StepEnded(slot_, clock, sums);
    return status;
  }
  absl::Status BeginEvaluation(uint64_t clock) override { return inner_.BeginEvaluation(clock); }
  absl::Status Evaluate(const Batch& batch, PassOutput output, PassResult& result) override {
    return inner_.Evaluate(batch, output, result);
  }

 private:
  StepEngine& inner_;
  const uint32_t slot_;
  StepObserver& observer_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_STEP_OBSERVER_H_
