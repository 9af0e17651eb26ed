#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_EXPERT_LOOPS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_EXPERT_LOOPS_H_

#include <cstdint>

#include "common/kernels/transformer/activation_loops.h"
#include "common/kernels/transformer/vec16.h"

// Loops of common/kernels/moe, over rows of experts. Included by vector_kernels_*.cc alone; see
// array_loops.h.

namespace muster {
namespace {

template <typename T>
void WeightedGeluLoop(int64_t rows, int64_t F, const int32_t* assignments, const float* weights,
                      const T* x, T* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const float weight = weights[assignments[r]];
    ForVec16(F, [&](int64_t i, int64_t count) {
      StoreUpTo(Gelu16(LoadUpTo(x + r * F + i, count)).value * weight, count, y + r * F + i);
    });
  }
}

template <typename T>
void WeightedGeluBackwardLoop(int64_t rows, int64_t F, const int32_t* assignments,
                              const float* weights, const T* x, const T* dy, T* dx,
                              float* dweights) {
  for (int64_t r = 0; r < rows; ++r) {
    const float weight = weights[assignments[r]];
    Vec16 sum = {};
    ForVec16(F, [&](int64_t i, int64_t count) {
      const ActivatedVec16 gelu = Gelu16(LoadUpTo(x + r * F + i, count));
      const Vec16 d = LoadUpTo(dy + r * F + i, count);
      sum += d * gelu.value;
      StoreUpTo(d * weight * gelu.derivative, count, dx + r * F + i);
    });
    dweights[assignments[r]] = Sum16(sum);
  }
}

template <typename T>
void WeightedSwiGluLoop(int64_t rows, int64_t F, const int32_t* assignments, const float* weights,
                        const T* gate_up, T* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const float weight = weights[assignments[r]];
    const T* gates = gate_up + r * 2 * F;
    const T* ups = gates + F;
    ForVec16(F, [&](int64_t i, int64_t count) {
      const Vec16 silu = Silu16(LoadUpTo(gates + i, count)).value;
      StoreUpTo(silu * LoadUpTo(ups + i, count) * weight, count, y + r * F + i);
    });
  }
}

template <typename T>
void WeightedSwiGluBackwardLoop(int64_t rows, int64_t F, const int32_t* assignments,
                                const float* weights, const T* gate_up, const T* dy, T* d_gate_up,
                                float* dweights) {
  for (int64_t r = 0; r < rows; ++r) {
    const float weight = weights[assignments[r]];
    const T* gates = gate_up + r * 2 * F;
    const T* ups = gates + F;
    T* d_gates = d_gate_up + r * 2 * F;
    T* d_ups = d_gates + F;
    Vec16 sum = {};
    ForVec16(F, [&](int64_t i, int64_t count) {
      const ActivatedVec16 silu = Silu16(LoadUpTo(gates + i, count));
      const Vec16 up = LoadUpTo(ups + i, count);
      const Vec16 d = LoadUpTo(dy + r * F + i, count);
      sum += d * (silu.value * up);
      const Vec16 weighted = d * weight;
      StoreUpTo(weighted * up * silu.derivative, count, d_gates + i);
      StoreUpTo(weighted * silu.value, count, d_ups + i);
    });
    dweights[assignments[r]] = Sum16(sum);
  }
}

template <typename T>
void SumOfRowsLoop(int64_t n, int64_t count, const T* rows, const int32_t* places,
                   const T* const* bases, T* out) {
  ForVec16(n, [&](int64_t i, int64_t lanes) {
    Vec16 sum = {};
    for (int b = 0; b < 3; ++b) {
      if (bases[b] != nullptr) sum += LoadUpTo(bases[b] + i, lanes);
    }
    for (int64_t j = 0; j < count; ++j) sum += LoadUpTo(rows + places[j] * n + i, lanes);
    StoreUpTo(sum, lanes, out + i);
  });
}

template <typename T>
void ScaleRowLoop(int64_t n, float factor, const T* x, T* y) {
  ForVec16(n, [&](int64_t i, int64_t count) {
    StoreUpTo(LoadUpTo(x + i, count) * factor, count, y + i);
  });
}

template <typename T>
float ScaleRowBackwardLoop(int64_t n, float factor, const T* x, const T* dy, T* dx) {
  Vec16 sum = {};
  ForVec16(n, [&](int64_t i, int64_t count) {
    const Vec16 d = LoadUpTo(dy + i, count);
    sum += d * LoadUpTo(x + i, count);
    StoreUpTo(d * factor, count, dx + i);
  });
  return Sum16(sum);
}

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_EXPERT_LOOPS_H_
