#ifndef MUSTER_COMMON_TENSOR_HALF_KERNELS_H_
#define MUSTER_COMMON_TENSOR_HALF_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "common/tensor/dtype.h"

namespace muster {

// The functions of half.h for one type and one kind of machine. All kinds give the same bits.
struct HalfKernels {
  void (*round)(size_t n, const float* values, uint16_t* bits);
  void (*widen)(size_t n, const std::byte* bits, float* values);
  void (*add)(size_t n, const std::byte* bits, float* values);
  void (*round_with_residual)(size_t n, const float* values, float* residual, uint16_t* bits);
  void (*round_stochastically)(size_t n, const float* values, uint32_t seed_low, uint32_t seed_high,
                               uint16_t* bits);
};

// Returns kernels for any machine: loops that the compiler vectorises, once per instruction set.
const HalfKernels* PortableHalfKernels(DType type);

// Returns kernels with the conversion instructions of AVX-512, which are several times faster for
// f16; null if the machine has none.
const HalfKernels* Avx512HalfKernels(DType type);

}  // namespace muster

#endif  // MUSTER_COMMON_TENSOR_HALF_KERNELS_H_
