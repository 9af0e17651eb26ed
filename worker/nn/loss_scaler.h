#ifndef MUSTER_WORKER_NN_LOSS_SCALER_H_
#define MUSTER_WORKER_NN_LOSS_SCALER_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "common/base/loss_scale.h"

namespace muster {

namespace v1 {
class ComputeSpec;
}  // namespace v1

// What slots multiply their loss by before backward, so that gradients in f16 are neither lost
// below 2^-24 nor infinite past 65504 (Micikevicius et al., "Mixed Precision Training", 2018,
// section 3.2). Always a power of two, so that multiplying and dividing change no digit of an f32.
//
// Found while training: a step whose gradients overflow halves it, `window` steps in a row without
// that double it. Who shares a scale is for loss_scaling.h's callers. Not thread-safe.
class LossScaler {
 public:
  // Before anything overflowed. Gradients are those of a sum over tokens, not of a mean: that of a
  // label's logit is near 1, and norms of small values enlarge what passes through them.
  static constexpr float kFirst = 4096;
  static constexpr uint32_t kUsualWindow = 2000;

  // Whether jobs that compute so find their scale while training.
  static bool IsFound(const v1::ComputeSpec& compute);

  // For jobs that compute in f16; none for the others. REQUIRES: a loss_scale that submit lets
  // through.
  static absl::optional<LossScaler> ForJob(const v1::ComputeSpec& compute);

  // `fixed` stays as it is; 0: found while training.
  LossScaler(float fixed, uint32_t window);

  float scale() const { return scale_; }
  bool fixed() const { return fixed_; }
  // REQUIRES: not fixed().
  LossScale state() const { return {.scale = scale_, .steps = steps_}; }
  void Restore(const LossScale& state);
  // Steps that overflowed here: since the task started.
  uint64_t overflows() const { return overflows_; }

  // Takes a step whose gradients were finite.
  void Succeeded();

  // Takes a step whose gradients were not. Returns false if there is no smaller scale: the job has
  // diverged.
  bool Overflowed();

 private:
  const bool fixed_;
  const uint32_t window_;
  float scale_;
  // Steps since the scale changed.
  uint32_t steps_ = 0;
  uint64_t overflows_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LOSS_SCALER_H_
