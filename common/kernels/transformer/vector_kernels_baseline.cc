#include "common/kernels/transformer/vector_kernels.h"
#include "common/kernels/transformer/vector_kernels_table.h"

namespace muster {

const VectorKernels* BaselineVectorKernels() {
  static constexpr VectorKernels kKernels = LoopsOf("baseline");
  return &kKernels;
}

}  // namespace muster
