#include "common/kernels/device/device_optimizer.h"

#include <cmath>

#include "common/kernels/device/simt/elements.h"

namespace muster {
namespace {

struct DecideKernel {
  static constexpr int kThreads = 32;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "decide step";

  float max_norm;
  const double* squares;
  const double* examples;
  const float* loss_scale;
  GradientControl* control;

  MUSTER_DEVICE void Run() const {
    if (ThreadIndex() != 0) return;
    const double divisor = *examples * (loss_scale != nullptr ? *loss_scale : 1.0f);
    const double norm = SqrtDouble(*squares) / divisor;
    // A difference with itself is 0 for finite numbers alone.
    const bool finite = *squares - *squares == 0;
    const bool use = finite && *examples > 0;
    const double clip = norm > max_norm ? max_norm / norm : 1.0;
    control->norm = norm;
    control->scale = use ? static_cast<float>(clip / divisor) : 0.0f;
    control->skip = use ? 0 : 1;
  }
};

// A NaN passes: comparisons with it are false.
MUSTER_DEVICE float Limited(float g, float limit) {
  const float below = limit < g ? limit : g;
  return -limit > below ? -limit : below;
}

template <typename Rounded>
struct AdamOp {
  static constexpr const char* kName = "adam";

  const DeviceAdamStep* step;
  const GradientControl* control;
  const float* gradient;
  float* weights;
  float* m;
  float* v;
  Rounded* rounded;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    float w[N];
    LoadFloats<N>(weights + i, w);
    if (control == nullptr || control->skip == 0) {
      const DeviceAdamStep c = *step;
      const float scale = control != nullptr ? control->scale : 1.0f;
      float g[N], ms[N], vs[N];
      LoadFloats<N>(gradient + i, g);
      LoadFloats<N>(m + i, ms);
      LoadFloats<N>(v + i, vs);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float used = Limited(g[j] * scale, c.clip_value) + c.decay_in_gradient * w[j];
        ms[j] = c.beta1 * ms[j] + (1 - c.beta1) * used;
        vs[j] = c.beta2 * vs[j] + (1 - c.beta2) * used * used;
        w[j] = c.shrink * w[j] - c.rate * ms[j] / (Sqrt(vs[j]) * c.root_correction + c.epsilon);
      }
      StoreFloats<N>(ms, m + i);
      StoreFloats<N>(vs, v + i);
      StoreFloats<N>(w, weights + i);
    }
    if (rounded != nullptr) StoreFloats<N>(w, rounded + i);
  }
};

template <typename Rounded>
struct SignOp {
  static constexpr const char* kName = "sign step";

  float rate;
  const GradientControl* control;
  const float* gradient;
  float* weights;
  Rounded* rounded;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    float w[N];
    LoadFloats<N>(weights + i, w);
    if (control == nullptr || control->skip == 0) {
      float g[N];
      LoadFloats<N>(gradient + i, g);
#pragma unroll
      for (int j = 0; j < N; ++j) w[j] -= g[j] > 0 ? rate : g[j] < 0 ? -rate : g[j];
      StoreFloats<N>(w, weights + i);
    }
    if (rounded != nullptr) StoreFloats<N>(w, rounded + i);
  }
};

}  // namespace

void DeviceDecideStep(DeviceStream& stream, const ClipOptions& options, const double* squares,
                      const double* examples, const float* loss_scale, GradientControl* control) {
  Launch(stream, {}, 0, DecideKernel{options.max_norm, squares, examples, loss_scale, control});
}

DeviceAdamStep AdamStepOf(const AdamOptions& options, float learning_rate, uint64_t step) {
  const double t = static_cast<double>(step);
  const double rate = learning_rate;
  const double decay = options.weight_decay;
  // 1 - βᵗ without loss of digits where βᵗ is almost 1.
  const double correction1 = -std::expm1(t * std::log(static_cast<double>(options.beta1)));
  const double correction2 = -std::expm1(t * std::log(static_cast<double>(options.beta2)));
  DeviceAdamStep c;
  c.decay_in_gradient = options.kind == AdamKind::kAdam ? options.weight_decay : 0;
  c.shrink = options.kind == AdamKind::kAdamW ? static_cast<float>(1 - rate * decay) : 1;
  c.beta1 = options.beta1;
  c.beta2 = options.beta2;
  c.rate = static_cast<float>(rate / correction1);
  c.root_correction = static_cast<float>(1 / std::sqrt(correction2));
  c.epsilon = options.epsilon;
  c.clip_value = options.clip_value;
  return c;
}

void DeviceAdam(DeviceStream& stream, int64_t n, const DeviceAdamStep* step,
                const GradientControl* control, const DeviceAdamArrays& arrays) {
  WithStorageType(arrays.rounded_type, [&](auto zero) {
    using T = decltype(zero);
    const bool packed = IsAligned16(arrays.gradient) && IsAligned16(arrays.weights) &&
                        IsAligned16(arrays.m) && IsAligned16(arrays.v) &&
                        IsAligned16(arrays.rounded);
    ForElements(stream, n, packed,
                AdamOp<T>{step, control, arrays.gradient, arrays.weights, arrays.m, arrays.v,
                          static_cast<T*>(arrays.rounded)});
  });
}

void DeviceSignStep(DeviceStream& stream, int64_t n, float rate, const GradientControl* control,
                    const DeviceAdamArrays& arrays) {
  WithStorageType(arrays.rounded_type, [&](auto zero) {
    using T = decltype(zero);
    const bool packed =
        IsAligned16(arrays.gradient) && IsAligned16(arrays.weights) && IsAligned16(arrays.rounded);
    ForElements(
        stream, n, packed,
        SignOp<T>{rate, control, arrays.gradient, arrays.weights, static_cast<T*>(arrays.rounded)});
  });
}

}  // namespace muster
