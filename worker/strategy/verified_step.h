#ifndef MUSTER_WORKER_STRATEGY_VERIFIED_STEP_H_
#define MUSTER_WORKER_STRATEGY_VERIFIED_STEP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/fingerprint.h"
#include "common/partition/tensor_spec.h"
#include "worker/nn/sparse_rows.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/strategy.h"

namespace muster {

// Stands before a strategy in a step whose gradients are compared before they change anything
// (JobSpec.verify_every). The engine computes this rank's own share first and then shares of other
// data ranks, each of them with all hooks from BeginStep to EndStep:
//
//                     own share                              another data rank's share
//   BeginStep         the strategy's                         nothing: the clock has begun
//   Acquire           the strategy's                         the strategy's, for a forward pass
//   gradients         the strategy's memory                  memory of this object
//   GradientReady     looks; is kept for Send, unless each   looks
//                     micro-batch's gradients leave
//   PushRows          looks; the last is kept for Send       looks
//   EndStep           is kept for Send                       nothing
//
// Where each micro-batch's gradients leave (ZeRO stages 2 and 3 by all-reduce) they are sent before
// the step is known to be right: ranks then have sums, but none steps before EndStep.
//
// A fingerprint covers the bytes of all gradients of this rank, and of all rows with their keys, in
// an order that all ranks with the same part of the model share. The memory for another share is as
// large as the gradients that the strategy has memory for (VerifiedGradientBytes in
// common/plan/memory/verified_memory.h): of units in flight one unit's at a time. Used by one
// thread.
class VerifiedStep final : public Strategy {
 public:
  // Says whose share the engine computes next.
  enum class Share { kOwn, kAnother };

  // `inner` and `tensors` outlive this object. `sends_micro_batches`: see StepTraits.
  VerifiedStep(Strategy& inner, absl::Span<const TensorSpec> tensors, bool sends_micro_batches);

  // Begins a share. REQUIRES: of each step the own one comes first.
  void Begin(Share share);
  // Returns the fingerprint of the share since Begin.
  uint64_t Fingerprint();
  // Sends what was kept of the own share, and ends the step.
  absl::Status Send();

  absl::Status BeginStep(uint64_t clock) override;
  absl::Status Acquire(int unit, Direction direction) override;
  void Release(int unit, Direction direction) override;
  ModelParameters parameters() const override { return inner_.parameters(); }
  absl::Status Prefetch(const MicroBatch& micro_batch) override {
    return inner_.Prefetch(micro_batch);
  }
  absl::Status LookUp(MicroBatch& micro_batch) override { return inner_.LookUp(micro_batch); }
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override;
  Accumulation GradientStore(int unit) const override;
  GradientSpans gradients() const override;
  float loss_scale() const override { return inner_.loss_scale(); }
  absl::Status GradientReady(int unit) override;
  absl::Status PushRows(MicroBatch& micro_batch) override;
  absl::Status EndStep() override { return absl::OkStatus(); }

  absl::StatusOr<uint64_t> Start() override { return inner_.Start(); }
  void SetRateFactor(double factor) override { inner_.SetRateFactor(factor); }
  absl::StatusOr<CutFiles> Cut(uint64_t clock) override { return inner_.Cut(clock); }
  BackgroundCuts& background_cuts() override { return inner_.background_cuts(); }
  const LossScaler* loss_scaler() const override { return inner_.loss_scaler(); }
  StrategyCounters counters() const override { return inner_.counters(); }

 private:
  // Makes the memory for other shares.
  void MakeScratch();
  void Look(absl::Span<const float> values);

  Strategy& inner_;
  const absl::Span<const TensorSpec> tensors_;
  const bool sends_micro_batches_;

  Share share_ = Share::kOwn;
  int micro_batches_ = 0;
  SeriesPosition position_ = SeriesPosition::kLast;
  std::unique_ptr<FingerprintStream> seen_;

  // The work of Send: the units that are ready, in order, and the last micro-batch's rows, of
  // which keys and gradients are copied.
  std::vector<int> ready_;
  MicroBatch* pushed_ = nullptr;
  std::vector<SparseRows> pushed_rows_;

  // Gradients of other shares; null before the first.
  std::unique_ptr<Arena> memory_;
  std::vector<absl::Span<float>> scratch_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_VERIFIED_STEP_H_
