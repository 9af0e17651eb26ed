#include "common/kernels/transformer/vector_kernels.h"

#if defined(__AVX2__) && defined(__FMA__)
#include "common/kernels/transformer/vector_kernels_table.h"
#endif

namespace muster {

const VectorKernels* Avx2VectorKernels() {
#if defined(__AVX2__) && defined(__FMA__)
  static constexpr VectorKernels kKernels = LoopsOf("avx2");
  return &kKernels;
#else
  return nullptr;
#endif
}

}  // namespace muster
