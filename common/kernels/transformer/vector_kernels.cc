#include "common/kernels/transformer/vector_kernels.h"

#include <atomic>

#include "common/base/machine/vector_level.h"

namespace muster {
namespace {

std::atomic<const VectorKernels*>& Active() {
  static std::atomic<const VectorKernels*> active = UsableVectorKernels().kernels[0];
  return active;
}

}  // namespace

VectorKernelList UsableVectorKernels() {
  VectorKernelList list = {};
  const VectorLevel level = ProcessorVectorLevel();
  if (level >= VectorLevel::kAvx512 && Avx512VectorKernels() != nullptr) {
    list.kernels[list.count++] = Avx512VectorKernels();
  }
  if (level >= VectorLevel::kAvx2 && Avx2VectorKernels() != nullptr) {
    list.kernels[list.count++] = Avx2VectorKernels();
  }
  list.kernels[list.count++] = BaselineVectorKernels();
  return list;
}

const VectorKernels& ActiveVectorKernels() { return *Active().load(std::memory_order_relaxed); }

void SetVectorKernelsForTesting(const VectorKernels& kernels) {
  Active().store(&kernels, std::memory_order_relaxed);
}

}  // namespace muster
