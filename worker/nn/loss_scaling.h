#ifndef MUSTER_WORKER_NN_LOSS_SCALING_H_
#define MUSTER_WORKER_NN_LOSS_SCALING_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/loss_scale.h"
#include "common/partition/tensor_spec.h"
#include "worker/nn/layer.h"
#include "worker/nn/loss_scaler.h"

namespace muster {

namespace v1 {
class ComputeSpec;
}  // namespace v1

// How a step ended for those who share a loss scale.
enum class StepEnd {
  kFinite,
  // Gradients overflowed: the step is left out, and changes nothing but the clock.
  kOverflowed,
};

// What a task does about its job's loss scale, on every road and device: it divides gradients,
// takes the end of each step, and tells the job's log of changes. Whose gradients decide on the end
// is the strategy's: those of all slots under BSP, of one slot otherwise. Scales nothing unless the
// job computes in f16. Not thread-safe.
class LossScaling {
 public:
  struct Options {
    // Named in log lines.
    uint32_t slot = 0;
    // Writes one line to the job's log.
    std::function<void(absl::string_view)> log = [](absl::string_view) {};
  };

  // Scales nothing.
  LossScaling() = default;
  LossScaling(const v1::ComputeSpec& compute, Options options);

  // Returns null unless the job computes in f16.
  const LossScaler* scaler() const { return scaler_.has_value() ? &*scaler_ : nullptr; }
  // Returns what the loss is multiplied by before backward.
  float scale() const { return scaler_.has_value() ? scaler_->scale() : 1; }
  // Returns whether the scale is found while training.
  bool searches() const { return scaler_.has_value() && !scaler_->fixed(); }
  // Returns the state of the search, now and after a step that ends so. REQUIRES: searches().
  LossScale state() const { return scaler_->state(); }
  LossScale StateAfter(StepEnd end) const;

  // Divides gradients by the scale. Returns the first tensor whose gradient is not finite; null:
  // all are finite, or nothing is scaled. `gradients` are by tensor.
  const TensorSpec* Divide(absl::Span<const TensorSpec> tensors, GradientSpans gradients) const;

  // Takes the end of the step at `clock`. OutOfRange: `what` is not finite, and there is no smaller
  // scale.
  absl::Status TakeEnd(uint64_t clock, StepEnd end, absl::string_view what);
  // Takes the end of a step, and the state after it, from those who decided on both.
  // REQUIRES: searches().
  void Follow(uint64_t clock, StepEnd end, const LossScale& state);

  // Goes on with a search that others have brought so far, and tells the log of a new state.
  // REQUIRES: searches().
  void GoOnWith(const LossScale& state);
  // Begins the search anew.
  void Restart();

 private:
  void LogEnd(uint64_t clock, StepEnd end, float scale_before);

  Options options_;
  absl::optional<LossScaler> scaler_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LOSS_SCALING_H_
