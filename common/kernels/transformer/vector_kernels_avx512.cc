#include "common/kernels/transformer/vector_kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__)
#include "common/kernels/transformer/vector_kernels_table.h"
#endif

namespace muster {

const VectorKernels* Avx512VectorKernels() {
#if defined(__AVX512F__) && defined(__AVX512BW__)
  static constexpr VectorKernels kKernels = LoopsOf("avx512");
  return &kKernels;
#else
  return nullptr;
#endif
}

}  // namespace muster
