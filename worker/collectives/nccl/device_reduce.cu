// One thread per element and a grid-stride loop: both kernels read and write every byte once, so
// that memory is their limit, and neighbouring threads touch neighbouring elements.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "worker/collectives/nccl/device_reduce.h"

namespace muster {
namespace {

constexpr int kThreads = 256;
constexpr size_t kMaxBlocks = 1024;

// Types in which elements are added up. Unsigned integers wrap, as signed ones must.
template <typename T>
struct Accumulator {
  using Type = T;
};
template <>
struct Accumulator<__half> {
  using Type = float;
};
template <>
struct Accumulator<__nv_bfloat16> {
  using Type = float;
};
template <>
struct Accumulator<int32_t> {
  using Type = uint32_t;
};
template <>
struct Accumulator<int64_t> {
  using Type = uint64_t;
};
template <typename T>
using AccumulatorOf = typename Accumulator<T>::Type;

template <typename T>
__device__ AccumulatorOf<T> Load(T value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half2float(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(value);
  } else {
    return static_cast<AccumulatorOf<T>>(value);
  }
}

template <typename T>
__device__ T Round(AccumulatorOf<T> value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(value);
  } else {
    return static_cast<T>(value);
  }
}

// Returns true if a replaces b as the least (or greatest) so far; a NaN stays.
template <typename T>
__device__ bool Replaces(AccumulatorOf<T> a, AccumulatorOf<T> b, bool least) {
  if constexpr (std::is_floating_point_v<AccumulatorOf<T>>) {
    if (isnan(b)) return false;
    if (isnan(a)) return true;
    return least ? a < b : a > b;
  } else {
    return least ? static_cast<T>(a) < static_cast<T>(b) : static_cast<T>(a) > static_cast<T>(b);
  }
}

template <typename T>
__device__ AccumulatorOf<T> Divide(AccumulatorOf<T> sum, int divisor) {
  if constexpr (std::is_same_v<AccumulatorOf<T>, float>) {
    return __fdiv_rn(sum, static_cast<float>(divisor));
  } else if constexpr (std::is_same_v<AccumulatorOf<T>, double>) {
    return __ddiv_rn(sum, static_cast<double>(divisor));
  } else {
    // Towards zero, in a type that holds both whatever T is.
    return static_cast<AccumulatorOf<T>>(static_cast<int64_t>(static_cast<T>(sum)) / divisor);
  }
}

template <typename T>
__global__ void ReduceRows(Reduction reduction, const T* rows, size_t stride, int sources,
                           size_t count, T* out) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    AccumulatorOf<T> result = Load(rows[i]);
    for (int s = 1; s < sources; ++s) {
      const AccumulatorOf<T> next = Load(rows[s * stride + i]);
      switch (reduction) {
        case Reduction::kSum:
        case Reduction::kAvg:
          result += next;
          break;
        case Reduction::kProd:
          result *= next;
          break;
        case Reduction::kMin:
          if (Replaces<T>(next, result, true)) result = next;
          break;
        case Reduction::kMax:
          if (Replaces<T>(next, result, false)) result = next;
          break;
        case Reduction::kBitAnd:
        case Reduction::kBitOr:
        case Reduction::kBitXor:
          break;  // Refused by NcclGroup::Begin.
      }
    }
    if (reduction == Reduction::kAvg) result = Divide<T>(result, sources);
    out[i] = Round<T>(result);
  }
}

template <typename T>
__global__ void DivideAll(T* data, size_t count, int divisor) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    data[i] = Round<T>(Divide<T>(Load(data[i]), divisor));
  }
}

int Blocks(size_t count) {
  const size_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

// Calls f with a null pointer to the device's type of `dtype`.
template <typename F>
void WithType(DType dtype, F f) {
  switch (dtype) {
    case DType::kF32:
      return f(static_cast<float*>(nullptr));
    case DType::kF64:
      return f(static_cast<double*>(nullptr));
    case DType::kF16:
      return f(static_cast<__half*>(nullptr));
    case DType::kBf16:
      return f(static_cast<__nv_bfloat16*>(nullptr));
    case DType::kInt32:
      return f(static_cast<int32_t*>(nullptr));
    case DType::kInt64:
      return f(static_cast<int64_t*>(nullptr));
    case DType::kUint8:
      return f(static_cast<uint8_t*>(nullptr));
  }
}

}  // namespace

cudaError_t ReduceRowsOnDevice(DType dtype, Reduction reduction, const void* rows, size_t stride,
                               int sources, size_t count, void* out, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  // Drops an earlier error, which is not this launch's.
  (void)cudaGetLastError();
  WithType(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    ReduceRows<T><<<Blocks(count), kThreads, 0, stream>>>(
        reduction, static_cast<const T*>(rows), stride, sources, count, static_cast<T*>(out));
  });
  return cudaGetLastError();
}

cudaError_t DivideOnDevice(DType dtype, void* data, size_t count, int divisor,
                           cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  (void)cudaGetLastError();
  WithType(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    DivideAll<T><<<Blocks(count), kThreads, 0, stream>>>(static_cast<T*>(data), count, divisor);
  });
  return cudaGetLastError();
}

}  // namespace muster
