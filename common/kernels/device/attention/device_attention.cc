#include "common/kernels/device/attention/device_attention.h"

#include <algorithm>
#include <type_traits>

#include "common/kernels/device/attention/attention_variants.h"
#include "common/kernels/device/attention/fma_attention.h"
#include "common/kernels/device/attention/tensor_attention.h"
#include "common/kernels/device/attention/tensor_attention_backward.h"

namespace muster {
namespace {

template <typename Kernel>
void LaunchForward(DeviceStream& stream, const AttentionShape& shape, int64_t queries,
                   int64_t queries_of_block, const Kernel& kernel) {
  Launch(stream,
         {.x = CeilDiv(queries, queries_of_block),
          .y = static_cast<int>(shape.H),
          .z = static_cast<int>(shape.B)},
         Kernel::kShared, kernel);
}

template <typename T, int kD, bool kDrops>
void Tensor(DeviceStream& stream, const AttentionShape& shape, const OpDropout& dropout,
            const T* qkv, T* out, float* logsumexp) {
  using Kernel = TensorAttentionKernel<T, kD, kDrops>;
  LaunchForward(stream, shape, shape.T, Kernel::kQueries,
                Kernel{PlaceOf(shape), dropout, qkv, out, logsumexp});
}

template <typename T>
void Fma(DeviceStream& stream, const AttentionShape& shape, const ResolvedAttentionShape& place,
         const OpDropout& dropout, const FmaForwardArrays<T>& arrays) {
  WithFmaWidth(shape.D, [&](auto width) {
    WithDropout(dropout, [&](auto drops) {
      using Kernel = FmaAttentionKernel<T, width(), drops()>;
      LaunchForward(stream, shape, place.queries, Kernel::kSide, Kernel{place, dropout, arrays});
    });
  });
}

}  // namespace

bool DeviceAttentionTakes(const AttentionShape& shape) { return shape.D >= 1 && shape.D <= 256; }

size_t DeviceAttentionSharedBytes(const AttentionShape& shape, DType type) {
  if (type != DType::kF32 && InChunks(PlaceOf(shape), nullptr, nullptr)) {
    return WithTensorWidth(shape.D, [](auto width) {
      return std::max({TensorAttentionKernel<Bf16, width(), true>::kShared,
                       TensorKeyGradientKernel<Bf16, width(), true>::kShared,
                       TensorQueryGradientKernel<Bf16, width(), true>::kShared});
    });
  }
  return WithFmaWidth(shape.D, [](auto width) {
    return std::max(FmaAttentionKernel<float, width(), true>::kShared,
                    FmaKeyGradientKernel<float, width(), true>::kShared);
  });
}

void DeviceAttention(DeviceStream& stream, const AttentionShape& shape, DType type, const void* qkv,
                     void* out, float* logsumexp, const OpDropout& dropout) {
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    const T* const in = static_cast<const T*>(qkv);
    T* const to = static_cast<T*>(out);
    if constexpr (!std::is_same_v<T, float>) {
      if (InChunks(PlaceOf(shape), qkv, out)) {
        return WithTensorWidth(shape.D, [&](auto width) {
          WithDropout(dropout, [&](auto drops) {
            Tensor<T, width(), drops()>(stream, shape, dropout, in, to, logsumexp);
          });
        });
      }
    }
    Fma<T>(stream, shape, PlaceOf(shape), dropout,
           {.queries = in, .keys = in, .out = to, .logsumexp = logsumexp});
  });
}

void DeviceAttentionOfPart(DeviceStream& stream, const AttentionShape& shape,
                           const AttentionPart& part, DType type,
                           const AttentionPartArrays& arrays) {
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    Fma<T>(stream, shape, PlaceOf(shape, part), arrays.dropout,
           {.queries = static_cast<const T*>(arrays.queries),
            .keys = static_cast<const T*>(arrays.keys_values),
            .logsumexp = arrays.logsumexp,
            .part_out = arrays.out,
            .accumulation = arrays.accumulation});
  });
}

}  // namespace muster
