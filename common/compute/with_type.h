#ifndef MUSTER_COMMON_COMPUTE_WITH_TYPE_H_
#define MUSTER_COMMON_COMPUTE_WITH_TYPE_H_

#include "common/tensor/bfloat16.h"
#include "common/tensor/dtype.h"

namespace muster {

// Calls f with a zero of the type by which kernels know a DType that is f32, bf16 or f16.
template <typename F>
void WithType(DType type, const F& f) {
  switch (type) {
    case DType::kBf16:
      return f(BFloat16());
    case DType::kF16:
      return f(Float16());
    default:
      return f(float());
  }
}

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_WITH_TYPE_H_
