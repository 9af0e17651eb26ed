#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_OPTIMIZER_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_OPTIMIZER_H_

#include <cstdint>
#include <limits>

#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// Optimizers of common/optim/optimizer.h on a device. Everything that changes from step to step is
// read from device memory, so that one captured graph serves all steps.

// Whether and how the step's gradients are used; in device memory.
struct GradientControl {
  // What gradient sums are multiplied by.
  float scale = 1;
  // Not 0: gradients overflowed, or there were no examples; weights and state stay.
  int32_t skip = 0;
  // Of the gradients' means, before clipping.
  double norm = 0;
};

struct ClipOptions {
  // Gradients whose norm is larger are scaled to it.
  float max_norm = std::numeric_limits<float>::infinity();
};

// Computes the norm of the mean gradient, the factor to scale by, and whether to skip the step,
// which is when *squares is not finite or there were no examples. *squares is the sum of squares of
// gradients, each a sum over *examples times *loss_scale (null: 1). Runs in one device thread,
// without the host.
void DeviceDecideStep(DeviceStream& stream, const ClipOptions& options, const double* squares,
                      const double* examples, const float* loss_scale, GradientControl* control);

// One Adam step's numbers, computed on the host (AdamStepOf) and copied to device memory.
struct DeviceAdamStep {
  // λ of adam (part of the gradient), 0 of adamw.
  float decay_in_gradient = 0;
  // 1 - ηλ of adamw, 1 of adam.
  float shrink = 1;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  // η / (1 - β₁ᵗ).
  float rate = 0;
  // 1 / √(1 - β₂ᵗ).
  float root_correction = 1;
  float epsilon = 1e-8f;
  // Each gradient, scaled, is limited to [-clip_value, clip_value].
  float clip_value = std::numeric_limits<float>::infinity();
};

enum class AdamKind { kAdam, kAdamW };
struct AdamOptions {
  AdamKind kind = AdamKind::kAdamW;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  float clip_value = std::numeric_limits<float>::infinity();
};
// `step` counts from 1.
DeviceAdamStep AdamStepOf(const AdamOptions& options, float learning_rate, uint64_t step);

// All in device memory, n elements each.
struct DeviceAdamArrays {
  const float* gradient = nullptr;
  float* weights = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  // The weights for matrix products, rounded; null: not written. Written on skipped steps too.
  DType rounded_type = DType::kBf16;
  void* rounded = nullptr;
};
// `control` may be null: scale 1.
void DeviceAdam(DeviceStream& stream, int64_t n, const DeviceAdamStep* step,
                const GradientControl* control, const DeviceAdamArrays& arrays);

// The step of tensors that move by signs (TensorSpec::sign_rate): each weight by -rate · sign of
// its gradient, by nothing where that is 0; a NaN becomes the weight. Reads `skip` of the control,
// which may be null, and neither moment.
void DeviceSignStep(DeviceStream& stream, int64_t n, float rate, const GradientControl* control,
                    const DeviceAdamArrays& arrays);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_OPTIMIZER_H_
