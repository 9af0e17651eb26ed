#ifndef MUSTER_COMMON_KERNELS_DEVICE_ACTIVATION_FUNCTIONS_H_
#define MUSTER_COMMON_KERNELS_DEVICE_ACTIVATION_FUNCTIONS_H_

#include "common/kernels/device/simt/simt.h"

namespace muster {

// As common/kernels/transformer/activation_loops.h: GELU's tanh form is x · sigmoid(2u), 2u = x ·
// (linear + cubic · x²).
constexpr float kGeluLinear = 1.5957691216057308f;  // 2 √(2/π)
constexpr float kGeluCubic = kGeluLinear * 0.044715f;

// e^-x overflows to infinity for x far below 0, and the sigmoid becomes 0 as it should.
MUSTER_DEVICE float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }

MUSTER_DEVICE float Gelu(float x) { return x * Sigmoid(x * (kGeluCubic * (x * x) + kGeluLinear)); }

MUSTER_DEVICE float GeluSlope(float x) {
  const float square = x * x;
  const float u = x * (kGeluCubic * square + kGeluLinear);
  const float slope = (3 * kGeluCubic) * square + kGeluLinear;
  const float sigmoid = Sigmoid(u);
  // Far from 0 the product below would be 0 · infinity.
  const float complement = Sigmoid(-u);
  return sigmoid + sigmoid * complement * (x * slope);
}

MUSTER_DEVICE float Silu(float x) { return x * Sigmoid(x); }

MUSTER_DEVICE float SiluSlope(float x) {
  const float sigmoid = Sigmoid(x);
  return sigmoid + sigmoid * Sigmoid(-x) * x;
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_ACTIVATION_FUNCTIONS_H_
