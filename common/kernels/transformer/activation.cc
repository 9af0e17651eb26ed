#include "common/kernels/transformer/activation.h"

#include <algorithm>

#include "common/kernels/parallel_for.h"
#include "common/kernels/transformer/vector_kernels.h"

namespace muster {
namespace {

// Elements that are worth a thread's while; a multiple of a vector's, so that ranges do not change
// what is a rest.
constexpr int64_t kActivationGrain = 1 << 14;

}  // namespace

template <typename T>
void Gelu(int64_t n, const T* x, T* y) {
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  ParallelFor(n, kActivationGrain,
              [&](int64_t begin, int64_t end) { kernels.gelu(end - begin, x + begin, y + begin); });
}

template <typename T>
void GeluBackward(int64_t n, const T* x, const T* dy, T* dx) {
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  ParallelFor(n, kActivationGrain, [&](int64_t begin, int64_t end) {
    kernels.gelu_backward(end - begin, x + begin, dy + begin, dx + begin);
  });
}

template <typename T>
void SwiGlu(int64_t rows, int64_t F, const T* gate_up, T* y) {
  if (F == 0) return;
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  ParallelFor(rows, std::max<int64_t>(1, kActivationGrain / F), [&](int64_t begin, int64_t end) {
    kernels.swiglu(end - begin, F, gate_up + begin * 2 * F, y + begin * F);
  });
}

template <typename T>
void SwiGluBackward(int64_t rows, int64_t F, const T* gate_up, const T* dy, T* d_gate_up) {
  if (F == 0) return;
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  ParallelFor(rows, std::max<int64_t>(1, kActivationGrain / F), [&](int64_t begin, int64_t end) {
    kernels.swiglu_backward(end - begin, F, gate_up + begin * 2 * F, dy + begin * F,
                            d_gate_up + begin * 2 * F);
  });
}

template void Gelu(int64_t, const float*, float*);
template void Gelu(int64_t, const BFloat16*, BFloat16*);
template void Gelu(int64_t, const Float16*, Float16*);
template void GeluBackward(int64_t, const float*, const float*, float*);
template void GeluBackward(int64_t, const BFloat16*, const BFloat16*, BFloat16*);
template void GeluBackward(int64_t, const Float16*, const Float16*, Float16*);
template void SwiGlu(int64_t, int64_t, const float*, float*);
template void SwiGlu(int64_t, int64_t, const BFloat16*, BFloat16*);
template void SwiGlu(int64_t, int64_t, const Float16*, Float16*);
template void SwiGluBackward(int64_t, int64_t, const float*, const float*, float*);
template void SwiGluBackward(int64_t, int64_t, const BFloat16*, const BFloat16*, BFloat16*);
template void SwiGluBackward(int64_t, int64_t, const Float16*, const Float16*, Float16*);

}  // namespace muster
