#ifndef MUSTER_COMMON_BASE_MACHINE_VECTOR_LEVEL_H_
#define MUSTER_COMMON_BASE_MACHINE_VECTOR_LEVEL_H_

namespace muster {

// What a processor's vector instructions are good for, as our kernels use them. Each level has what
// those before it have.
enum class VectorLevel {
  // What every processor of the architecture has.
  kBaseline,
  // AVX2, FMA and F16C.
  kAvx2,
  // AVX-512 F, BW, DQ and VL.
  kAvx512,
};

// Of the processor that this runs on. Thread-safe.
VectorLevel ProcessorVectorLevel();

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_VECTOR_LEVEL_H_
