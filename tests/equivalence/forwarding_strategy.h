#ifndef MUSTER_TESTS_EQUIVALENCE_FORWARDING_STRATEGY_H_
#define MUSTER_TESTS_EQUIVALENCE_FORWARDING_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/strategy/strategy.h"

namespace muster {

// The hooks of a step that may fail.
enum class Hook {
  kBeginStep,
  kAcquire,
  kPrefetch,
  kLookUp,
  kBeforeBackward,
  kGradientReady,
  kPushRows,
  kEndStep,
};

// Does what another strategy does, each hook of a step that may fail by way of Call.
class ForwardingStrategy : public Strategy {
 public:
  // The strategy must outlive this one.
  explicit ForwardingStrategy(Strategy& inner) : inner_(inner) {}

  absl::StatusOr<uint64_t> Start() override { return inner_.Start(); }
  void SetRateFactor(double factor) override { inner_.SetRateFactor(factor); }
  absl::Status BeginStep(uint64_t clock) override {
    return Call(Hook::kBeginStep, [&] { return inner_.BeginStep(clock); });
  }
  absl::Status Acquire(int unit, Direction direction) override {
    return Call(Hook::kAcquire, [&] { return inner_.Acquire(unit, direction); });
  }
  void Release(int unit, Direction direction) override { inner_.Release(unit, direction); }
  ModelParameters parameters() const override { return inner_.parameters(); }
  absl::Status Prefetch(const MicroBatch& batch) override {
    return Call(Hook::kPrefetch, [&] { return inner_.Prefetch(batch); });
  }
  absl::Status LookUp(MicroBatch& batch) override {
    return Call(Hook::kLookUp, [&] { return inner_.LookUp(batch); });
  }
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override {
    return Call(Hook::kBeforeBackward, [&] { return inner_.BeforeBackward(examples, position); });
  }
  Accumulation GradientStore(int unit) const override { return inner_.GradientStore(unit); }
  GradientSpans gradients() const override { return inner_.gradients(); }
  float loss_scale() const override { return inner_.loss_scale(); }
  absl::Status GradientReady(int unit) override {
    return Call(Hook::kGradientReady, [&] { return inner_.GradientReady(unit); });
  }
  absl::Status PushRows(MicroBatch& batch) override {
    return Call(Hook::kPushRows, [&] { return inner_.PushRows(batch); });
  }
  absl::Status EndStep() override {
    return Call(Hook::kEndStep, [&] { return inner_.EndStep(); });
  }
  absl::StatusOr<CutFiles> Cut(uint64_t clock) override { return inner_.Cut(clock); }
  BackgroundCuts& background_cuts() override { return inner_.background_cuts(); }
  const LossScaler* loss_scaler() const override { return inner_.loss_scaler(); }
  StrategyCounters counters() const override { return inner_.counters(); }

 protected:
  virtual absl::Status Call(Hook hook, const std::function<absl::Status()>& call) { return call(); }

 private:
  Strategy& inner_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_FORWARDING_STRATEGY_H_
