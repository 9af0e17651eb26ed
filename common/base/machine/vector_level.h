#ifndef MUSTER_COMMON_BASE_MACHINE_VECTOR_LEVEL_H_
#define MUSTER_COMMON_BASE_MACHINE_VECTOR_LEVEL_H_

namespace muster {

// Vector instructions of a processor, as our kernels use them. Each level includes those before it.
enum class VectorLevel {
  // Instructions that every processor of the architecture has.
  kBaseline,
  // AVX2, FMA and F16C.
  kAvx2,
  // AVX-512 F, BW, DQ and VL.
  kAvx512,
};

// Returns the level of this processor. Thread-safe.
VectorLevel ProcessorVectorLevel();

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_VECTOR_LEVEL_H_
