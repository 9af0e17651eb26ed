#ifndef MUSTER_TESTS_EQUIVALENCE_DYING_STRATEGY_H_
#define MUSTER_TESTS_EQUIVALENCE_DYING_STRATEGY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/strategy/strategy.h"

namespace muster {

// A task that ends without a word.
struct Death {
  uint32_t slot = 0;
  // How many of its strategy's hooks the task gets to call.
  int hooks = 0;
  // Whether the last of these still takes effect.
  bool takes_effect = false;
};

// Passes hooks on until its task is to die: then they are Internal.
class DyingStrategy final : public Strategy {
 public:
  // The strategy must outlive this one.
  DyingStrategy(Strategy& inner, const Death& death) : inner_(inner), death_(death) {}

  absl::StatusOr<uint64_t> Start() override { return inner_.Start(); }
  absl::Status BeginStep(uint64_t clock) override {
    return Live([&] { return inner_.BeginStep(clock); });
  }
  absl::Status BeforeForward(int unit) override {
    return Live([&] { return inner_.BeforeForward(unit); });
  }
  absl::Status Prefetch(const MicroBatch& batch) override {
    return Live([&] { return inner_.Prefetch(batch); });
  }
  absl::Status LookUp(MicroBatch& batch) override {
    return Live([&] { return inner_.LookUp(batch); });
  }
  absl::Status BeforeBackward(uint64_t examples, MicroBatchPlace place) override {
    return Live([&] { return inner_.BeforeBackward(examples, place); });
  }
  absl::Status Withdraw() override {
    return Live([&] { return inner_.Withdraw(); });
  }
  absl::Status GradientReady(int unit) override {
    return Live([&] { return inner_.GradientReady(unit); });
  }
  absl::Status PushRows(MicroBatch& batch) override {
    return Live([&] { return inner_.PushRows(batch); });
  }
  absl::Status EndStep() override {
    return Live([&] { return inner_.EndStep(); });
  }
  absl::StatusOr<std::vector<CutPiece>> Cut(uint64_t clock) override { return inner_.Cut(clock); }
  BackgroundCuts* background_cuts() override { return inner_.background_cuts(); }
  void set_loss_scale(const LossScale& scale) override { inner_.set_loss_scale(scale); }
  absl::optional<LossScale> loss_scale() const override { return inner_.loss_scale(); }
  ParameterSpans parameters() const override { return inner_.parameters(); }
  absl::Span<const void* const> rounded_parameters() const override {
    return inner_.rounded_parameters();
  }
  GradientSpans gradients() const override { return inner_.gradients(); }
  StrategyCounters counters() const override { return inner_.counters(); }

  bool died() const { return calls_ >= death_.hooks; }

 private:
  template <typename Hook>
  absl::Status Live(const Hook& hook) {
    if (++calls_ < death_.hooks) return hook();
    if (death_.takes_effect) hook().IgnoreError();
    return absl::InternalError("the task dies here");
  }

  Strategy& inner_;
  const Death death_;
  int calls_ = 0;
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_DYING_STRATEGY_H_
