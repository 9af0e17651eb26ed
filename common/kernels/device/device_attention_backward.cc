#include <type_traits>

#include "common/kernels/device/attention_variants.h"
#include "common/kernels/device/device_attention.h"
#include "common/kernels/device/fma_attention.h"
#include "common/kernels/device/tensor_attention_backward.h"

namespace muster {
namespace {

// delta = do · o of each row: a warp per token and head.
template <typename T>
struct DeltaKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr const char* kName = "attention backward, delta";
  static constexpr int kWarps = kThreads / 32;

  ResolvedAttentionShape place;
  int64_t tokens;
  const T* out;
  const T* dout;
  float* delta;

  MUSTER_DEVICE void Run() const {
    const int64_t row = static_cast<int64_t>(BlockX()) * kWarps + WarpIndex();
    if (row >= tokens * place.H) return;
    const int64_t token = row / place.H;
    const int h = static_cast<int>(row % place.H);
    const int64_t at = token * place.out_stride + static_cast<int64_t>(h) * place.D;
    float sum = 0;
    for (int d = LaneIndex(); d < place.D; d += 32) sum += Widen(out[at + d]) * Widen(dout[at + d]);
    sum = WarpSum(sum);
    const int64_t b = token / place.T;
    if (LaneIndex() == 0) {
      delta[place.Rows(static_cast<int>(b), h) + token - b * place.T] = sum;
    }
  }
};

template <typename Keys, typename Queries, typename T>
void LaunchBoth(DeviceStream& stream, const AttentionShape& shape, int64_t rows, int parts,
                const OpDropout& dropout, const AttentionBackwardArrays<T>& arrays) {
  LaunchGrid grid = {.x = CeilDiv(shape.T, rows) * parts,
                     .y = static_cast<int>(shape.KV),
                     .z = static_cast<int>(shape.B)};
  Launch(stream, grid, Keys::kShared, Keys{PlaceOf(shape), dropout, arrays});
  grid.y = static_cast<int>(shape.H);
  Launch(stream, grid, Queries::kShared, Queries{PlaceOf(shape), dropout, arrays});
}

template <typename T, int kD, bool kDrops>
void Tensor(DeviceStream& stream, const AttentionShape& shape, const OpDropout& dropout,
            const AttentionBackwardArrays<T>& arrays) {
  using Tiles = BackwardTiles<kD>;
  LaunchBoth<TensorKeyGradientKernel<T, kD, kDrops>, TensorQueryGradientKernel<T, kD, kDrops>>(
      stream, shape, Tiles::kOwned, Tiles::kParts, dropout, arrays);
}

template <typename T, int kD, bool kDrops>
void Fma(DeviceStream& stream, const AttentionShape& shape, const OpDropout& dropout,
         const AttentionBackwardArrays<T>& arrays) {
  LaunchBoth<FmaKeyGradientKernel<T, kD, kDrops>, FmaQueryGradientKernel<T, kD, kDrops>>(
      stream, shape, FmaBackwardTiles<kD>::kSide, 1, dropout, arrays);
}

}  // namespace

void DeviceAttentionBackward(DeviceStream& stream, const AttentionShape& shape, DType type,
                             const void* qkv, const void* out, const float* logsumexp,
                             const void* dout, void* dqkv, float* scratch,
                             const OpDropout& dropout) {
  if (shape.B * shape.T == 0) return;
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    const ResolvedAttentionShape place = PlaceOf(shape);
    const int64_t tokens = shape.B * shape.T;
    Launch(stream, {.x = CeilDiv(tokens * shape.H, DeltaKernel<T>::kWarps)}, 0,
           DeltaKernel<T>{place, tokens, static_cast<const T*>(out), static_cast<const T*>(dout),
                          scratch});
    const AttentionBackwardArrays<T> arrays = {static_cast<const T*>(qkv),
                                               static_cast<const T*>(dout), logsumexp, scratch,
                                               static_cast<T*>(dqkv)};
    if constexpr (!std::is_same_v<T, float>) {
      if (InChunks(place, qkv, dout) && IsAligned16(dqkv)) {
        return WithTensorWidth(shape.D, [&](auto width) {
          WithDropout(dropout, [&](auto drops) {
            Tensor<T, width(), drops()>(stream, shape, dropout, arrays);
          });
        });
      }
    }
    WithFmaWidth(shape.D, [&](auto width) {
      WithDropout(dropout,
                  [&](auto drops) { Fma<T, width(), drops()>(stream, shape, dropout, arrays); });
    });
  });
}

}  // namespace muster
