#include "common/kernels/device/device_attention.h"

#include <type_traits>

#include "common/kernels/device/fma_attention.h"
#include "common/kernels/device/tensor_attention.h"

namespace muster {
namespace {

template <typename Kernel>
void LaunchForward(DeviceStream& stream, const AttentionShape& shape, int64_t queries,
                   const Kernel& kernel) {
  Launch(stream,
         {.x = CeilDiv(shape.T, queries),
          .y = static_cast<int>(shape.H),
          .z = static_cast<int>(shape.B)},
         Kernel::kShared, kernel);
}

template <typename T, int kD>
void Tensor(DeviceStream& stream, const AttentionShape& shape, const T* qkv, T* out,
            float* logsumexp) {
  using Kernel = TensorAttentionKernel<T, kD>;
  LaunchForward(stream, shape, Kernel::kQueries, Kernel{PlaceOf(shape), qkv, out, logsumexp});
}

template <typename T, int kD>
void Fma(DeviceStream& stream, const AttentionShape& shape, const T* qkv, T* out,
         float* logsumexp) {
  using Kernel = FmaAttentionKernel<T, kD>;
  LaunchForward(stream, shape, Kernel::kSide, Kernel{PlaceOf(shape), qkv, out, logsumexp});
}

}  // namespace

bool DeviceAttentionTakes(const AttentionShape& shape) { return shape.D >= 1 && shape.D <= 256; }

void DeviceAttention(DeviceStream& stream, const AttentionShape& shape, DType type, const void* qkv,
                     void* out, float* logsumexp) {
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    const T* const in = static_cast<const T*>(qkv);
    T* const to = static_cast<T*>(out);
    if constexpr (!std::is_same_v<T, float>) {
      if (InChunks(PlaceOf(shape), qkv, out)) {
        if (shape.D <= 32) return Tensor<T, 32>(stream, shape, in, to, logsumexp);
        if (shape.D <= 64) return Tensor<T, 64>(stream, shape, in, to, logsumexp);
        if (shape.D <= 96) return Tensor<T, 96>(stream, shape, in, to, logsumexp);
        if (shape.D <= 128) return Tensor<T, 128>(stream, shape, in, to, logsumexp);
        return Tensor<T, 256>(stream, shape, in, to, logsumexp);
      }
    }
    if (shape.D <= 64) return Fma<T, 64>(stream, shape, in, to, logsumexp);
    if (shape.D <= 128) return Fma<T, 128>(stream, shape, in, to, logsumexp);
    return Fma<T, 256>(stream, shape, in, to, logsumexp);
  });
}

}  // namespace muster
