#ifndef MUSTER_WORKER_DEVICE_WEIGHTS_COPYING_STRATEGY_H_
#define MUSTER_WORKER_DEVICE_WEIGHTS_COPYING_STRATEGY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/device/device.h"
#include "worker/device/memory/device_options.h"
#include "worker/device/passes/device_passes.h"
#include "worker/device/weights/device_spaces.h"
#include "worker/strategy/strategy.h"

namespace muster {

// A strategy for a model on a device, over one that keeps parameters in host memory or on servers,
// with any optimizer. Copies each unit's parameters to the device when it is first acquired after a
// BeginStep, and its gradients back after the last micro-batch, 8 bytes a parameter and step. While
// one unit's gradients are copied and sent, the device computes the unit before it.
class CopyingStrategy final : public Strategy {
 public:
  // Allocates all device memory; weights are initial values, on which the device is as fast as on
  // those of the strategy. `inner` outlives this. Errors: AwaitDevice's, and the device's.
  static absl::StatusOr<std::unique_ptr<CopyingStrategy>> Create(Strategy& inner,
                                                                 const DeviceOptions& options);
  ~CopyingStrategy() override;

  DevicePasses& passes() { return *passes_; }

  absl::StatusOr<uint64_t> Start() override { return inner_.Start(); }
  void SetRateFactor(double factor) override { inner_.SetRateFactor(factor); }
  absl::Status BeginStep(uint64_t clock) override;
  absl::Status Acquire(int unit, Direction direction) override;
  void Release(int unit, Direction direction) override {}
  ModelParameters parameters() const override { return spaces_->parameters(); }
  absl::Status Prefetch(const MicroBatch& micro_batch) override {
    return inner_.Prefetch(micro_batch);
  }
  absl::Status LookUp(MicroBatch& micro_batch) override { return inner_.LookUp(micro_batch); }
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override;
  // BeginStep zeroes gradients that hold sums.
  Accumulation GradientStore(int unit) const override { return Accumulation::kAdd; }
  GradientSpans gradients() const override { return spaces_->gradients(); }
  float loss_scale() const override { return inner_.loss_scale(); }
  // Also OutOfRange: gradients that are not scaled are infinite or NaN.
  absl::Status GradientReady(int unit) override;
  absl::Status PushRows(MicroBatch& micro_batch) override { return inner_.PushRows(micro_batch); }
  absl::Status EndStep() override;
  absl::StatusOr<CutFiles> Cut(uint64_t clock) override { return inner_.Cut(clock); }
  BackgroundCuts& background_cuts() override { return inner_.background_cuts(); }
  absl::StatusOr<CutEnd> EndCut(CutEnd mine) override { return inner_.EndCut(mine); }
  const LossScaler* loss_scaler() const override { return inner_.loss_scaler(); }
  StrategyCounters counters() const override { return inner_.counters(); }
  absl::optional<uint64_t> LeftOutUntil() const override { return inner_.LeftOutUntil(); }

 private:
  struct Unit {
    // The unit's tensors; tied ones are left out.
    std::vector<int> tensors;
    // True once the parameters were copied at this step's clock.
    bool copied = false;
    // Reached when the device has its gradients.
    std::unique_ptr<DeviceEvent> ready;
  };

  CopyingStrategy(Strategy& inner, bool scales) : inner_(inner), scales_(scales) {}

  // Copies the unit's gradients to the inner strategy, which sends them.
  absl::Status Send(int unit);

  Strategy& inner_;
  // True if gradients are scaled, so that the inner strategy takes any.
  const bool scales_;
  std::unique_ptr<DevicePasses> passes_;
  std::unique_ptr<DeviceSpaces> spaces_;
  // Copies gradients beside the computation.
  std::unique_ptr<DeviceStream> copies_;
  std::vector<Unit> units_;
  // Nothing was added to the gradients since BeginStep zeroed them.
  bool gradients_are_zero_ = false;
  // The numbers of the present step.
  uint64_t clock_ = 0;
  uint64_t examples_ = 0;
  SeriesPosition position_ = SeriesPosition::kLast;
  // The unit whose gradients are ready, but not sent.
  absl::optional<int> ready_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_WEIGHTS_COPYING_STRATEGY_H_
