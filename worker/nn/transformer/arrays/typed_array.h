#ifndef MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TYPED_ARRAY_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TYPED_ARRAY_H_

#include <cstddef>
#include <cstdint>

#include "common/tensor/dtype.h"

namespace muster {

// Return where an element of an array of a type lies.
inline void* At(DType type, void* array, int64_t element) {
  return static_cast<std::byte*>(array) + element * static_cast<int64_t>(SizeOf(type));
}
inline const void* At(DType type, const void* array, int64_t element) {
  return static_cast<const std::byte*>(array) + element * static_cast<int64_t>(SizeOf(type));
}

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TYPED_ARRAY_H_
