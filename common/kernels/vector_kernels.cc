#include "common/kernels/vector_kernels.h"

#include <atomic>

namespace muster {
namespace {

std::atomic<const VectorKernels*>& Active() {
  static std::atomic<const VectorKernels*> active = UsableVectorKernels().kernels[0];
  return active;
}

}  // namespace

VectorKernelList UsableVectorKernels() {
  VectorKernelList list = {};
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512 && Avx512VectorKernels() != nullptr) {
    list.kernels[list.count++] = Avx512VectorKernels();
  }
  if (avx2 && Avx2VectorKernels() != nullptr) list.kernels[list.count++] = Avx2VectorKernels();
#endif
  list.kernels[list.count++] = BaselineVectorKernels();
  return list;
}

const VectorKernels& ActiveVectorKernels() { return *Active().load(std::memory_order_relaxed); }

void SetVectorKernelsForTesting(const VectorKernels& kernels) {
  Active().store(&kernels, std::memory_order_relaxed);
}

}  // namespace muster
