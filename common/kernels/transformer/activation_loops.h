#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_ACTIVATION_LOOPS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_ACTIVATION_LOOPS_H_

#include <cstdint>

#include "common/kernels/transformer/vec16.h"

// Loops of activation.h. Included by vector_kernels_*.cc alone; see array_loops.h.

namespace muster {
namespace {

// GELU's tanh form is x · sigmoid(2u), u = √(2/π) (x + 0.044715 x³): no tanh, no cancellation.
constexpr float kGeluLinear = 1.5957691216057308f;  // 2 √(2/π)
constexpr float kGeluCubic = kGeluLinear * 0.044715f;

struct ActivatedVec16 {
  Vec16 value;
  Vec16 derivative;
};

// d/dx x · s(2u) = s + x · s · (1 - s) · 2u'.
MUSTER_ALWAYS_INLINE ActivatedVec16 Gelu16(Vec16 v) {
  const Vec16 square = v * v;
  Vec16 complement;
  const Vec16 sigmoid = Sigmoid16(v * (kGeluCubic * square + kGeluLinear), &complement);
  const Vec16 slope = (3 * kGeluCubic) * square + kGeluLinear;
  return {v * sigmoid, sigmoid + sigmoid * (complement * (v * slope))};
}

// d/dg g · s(g) = s + g · s · (1 - s).
MUSTER_ALWAYS_INLINE ActivatedVec16 Silu16(Vec16 gate) {
  Vec16 complement;
  const Vec16 sigmoid = Sigmoid16(gate, &complement);
  return {gate * sigmoid, sigmoid + sigmoid * (complement * gate)};
}

template <typename T>
void GeluLoop(int64_t n, const T* x, T* y) {
  ForVec16(n, [&](int64_t i, int64_t count) {
    StoreUpTo(Gelu16(LoadUpTo(x + i, count)).value, count, y + i);
  });
}

template <typename T>
void GeluBackwardLoop(int64_t n, const T* x, const T* dy, T* dx) {
  ForVec16(n, [&](int64_t i, int64_t count) {
    const Vec16 derivative = Gelu16(LoadUpTo(x + i, count)).derivative;
    StoreUpTo(LoadUpTo(dy + i, count) * derivative, count, dx + i);
  });
}

template <typename T>
void SwiGluLoop(int64_t rows, int64_t F, const T* gate_up, T* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* gates = gate_up + r * 2 * F;
    const T* ups = gates + F;
    ForVec16(F, [&](int64_t i, int64_t count) {
      const Vec16 silu = Silu16(LoadUpTo(gates + i, count)).value;
      StoreUpTo(silu * LoadUpTo(ups + i, count), count, y + r * F + i);
    });
  }
}

template <typename T>
void SwiGluBackwardLoop(int64_t rows, int64_t F, const T* gate_up, const T* dy, T* d_gate_up) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* gates = gate_up + r * 2 * F;
    const T* ups = gates + F;
    T* d_gates = d_gate_up + r * 2 * F;
    T* d_ups = d_gates + F;
    ForVec16(F, [&](int64_t i, int64_t count) {
      const Vec16 gate = LoadUpTo(gates + i, count), up = LoadUpTo(ups + i, count);
      const Vec16 d = LoadUpTo(dy + r * F + i, count);
      const ActivatedVec16 silu = Silu16(gate);
      StoreUpTo(d * up * silu.derivative, count, d_gates + i);
      StoreUpTo(d * silu.value, count, d_ups + i);
    });
  }
}

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_ACTIVATION_LOOPS_H_
