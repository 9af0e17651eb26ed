#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_ACTIVATION_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_ACTIVATION_H_

#include <cstdint>

#include "common/tensor/bfloat16.h"

namespace muster {

// Activation functions of feed-forward layers on arrays of T, which is float, BFloat16 or
// Float16; arithmetic is f32, rounded once. Backward starts from the saved *input*. On
// ComputeThreads() threads; for one instruction set the same bits on any number of them.
// Thread-safe. Within 2 · 10^-6 (absolute, for inputs and gradients near 1) of the exact value in
// f32.

// y[i] = gelu(x[i]) = x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), GPT-2's form, for i < n. y may be
// x.
template <typename T>
void Gelu(int64_t n, const T* x, T* y);

// dx[i] = dy[i] · gelu'(x[i]). dx may be dy or x.
template <typename T>
void GeluBackward(int64_t n, const T* x, const T* dy, T* dx);

// y[r, f] = silu(gate) · up with gate = gate_up[r, f], up = gate_up[r, F + f] and silu(g) = g / (1
// + e^-g). gate_up is [rows, 2F], y [rows, F]; no overlap.
template <typename T>
void SwiGlu(int64_t rows, int64_t F, const T* gate_up, T* y);

// Gradients of gate and up, packed as they are; [rows, 2F]. d_gate_up may be gate_up, not dy.
template <typename T>
void SwiGluBackward(int64_t rows, int64_t F, const T* gate_up, const T* dy, T* d_gate_up);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_ACTIVATION_H_
