#ifndef MUSTER_COMMON_TENSOR_DTYPE_H_
#define MUSTER_COMMON_TENSOR_DTYPE_H_

#include <cstddef>

namespace muster {

// Type of a tensor's elements. f16 is IEEE binary16; bf16 is the upper half of an f32.
enum class DType { kF32, kF64, kF16, kBf16, kInt32, kInt64, kUint8 };

// Returns the number of bytes of one element.
constexpr size_t SizeOf(DType type) {
  switch (type) {
    case DType::kF64:
    case DType::kInt64:
      return 8;
    case DType::kF32:
    case DType::kInt32:
      return 4;
    case DType::kF16:
    case DType::kBf16:
      return 2;
    case DType::kUint8:
      return 1;
  }
  return 0;
}

// Returns a name such as "f32".
constexpr const char* Name(DType type) {
  switch (type) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kF16:
      return "f16";
    case DType::kBf16:
      return "bf16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kUint8:
      return "uint8";
  }
  return "";
}

}  // namespace muster

#endif  // MUSTER_COMMON_TENSOR_DTYPE_H_
