#include <type_traits>

#include "common/kernels/device/attention/attention_variants.h"
#include "common/kernels/device/attention/device_attention.h"
#include "common/kernels/device/attention/fma_attention.h"
#include "common/kernels/device/attention/tensor_attention_backward.h"

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
    const int64_t b = token / place.query_rows;
    if (LaneIndex() == 0) {
      delta[place.Rows(static_cast<int>(b), h) + token - b * place.query_rows] = sum;
    }
  }
};

template <typename Keys, typename Queries, typename Arrays>
void LaunchBoth(DeviceStream& stream, const ResolvedAttentionShape& place, int64_t B, int64_t rows,
                int parts, const OpDropout& dropout, const Arrays& arrays) {
  LaunchGrid grid = {
      .x = CeilDiv(place.keys, rows) * parts, .y = place.KV, .z = static_cast<int>(B)};
  Launch(stream, grid, Keys::kShared, Keys{place, dropout, arrays});
  grid.x = CeilDiv(place.queries, rows) * parts;
  grid.y = place.H;
  Launch(stream, grid, Queries::kShared, Queries{place, dropout, arrays});
}

template <typename T, int kD, bool kDrops>
void Tensor(DeviceStream& stream, const AttentionShape& shape, const OpDropout& dropout,
            const AttentionBackwardArrays<T>& arrays) {
  using Tiles = BackwardTiles<kD>;
  LaunchBoth<TensorKeyGradientKernel<T, kD, kDrops>, TensorQueryGradientKernel<T, kD, kDrops>>(
      stream, PlaceOf(shape), shape.B, Tiles::kOwned, Tiles::kParts, dropout, arrays);
}

template <typename T>
void Fma(DeviceStream& stream, const AttentionShape& shape, const ResolvedAttentionShape& place,
         const OpDropout& dropout, const FmaBackwardArrays<T>& arrays) {
  WithFmaWidth(shape.D, [&](auto width) {
    WithDropout(dropout, [&](auto drops) {
      constexpr int kD = width();
      LaunchBoth<FmaKeyGradientKernel<T, kD, drops()>, FmaQueryGradientKernel<T, kD, drops()>>(
          stream, place, shape.B, FmaBackwardTiles<kD>::kSide, 1, dropout, arrays);
    });
  });
}

template <typename T>
void Delta(DeviceStream& stream, const ResolvedAttentionShape& place, int64_t tokens,
           const void* out, const void* dout, float* delta) {
  Launch(stream, {.x = CeilDiv(tokens * place.H, DeltaKernel<T>::kWarps)}, 0,
         DeltaKernel<T>{place, tokens, static_cast<const T*>(out), static_cast<const T*>(dout),
                        delta});
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
    Delta<T>(stream, place, shape.B * shape.T, out, dout, scratch);
    const T* const in = static_cast<const T*>(qkv);
    const T* const gradient = static_cast<const T*>(dout);
    T* const to = static_cast<T*>(dqkv);
    if constexpr (!std::is_same_v<T, float>) {
      if (InChunks(place, qkv, dout) && IsAligned16(dqkv)) {
        const AttentionBackwardArrays<T> arrays = {in, gradient, logsumexp, scratch, to};
        return WithTensorWidth(shape.D, [&](auto width) {
          WithDropout(dropout, [&](auto drops) {
            Tensor<T, width(), drops()>(stream, shape, dropout, arrays);
          });
        });
      }
    }
    Fma<T>(stream, shape, place, dropout,
           {.queries = in,
            .keys = in,
            .dout = gradient,
            .logsumexp = logsumexp,
            .delta = scratch,
            .dqkv = to});
  });
}

void DeviceAttentionDelta(DeviceStream& stream, const AttentionShape& shape, int64_t rows,
                          DType type, const void* out, const void* dout, float* delta) {
  WithStorageType(type, [&](auto zero) {
    Delta<decltype(zero)>(stream, PlaceOf(shape, {.query_rows = rows}), shape.B * rows, out, dout,
                          delta);
  });
}

void DeviceAttentionPartBackward(DeviceStream& stream, const AttentionShape& shape,
                                 const AttentionPart& part, DType type,
                                 const AttentionPartGradientArrays& arrays) {
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    Fma<T>(stream, shape, PlaceOf(shape, part), arrays.dropout,
           {.queries = static_cast<const T*>(arrays.queries),
            .keys = static_cast<const T*>(arrays.keys_values),
            .dout = static_cast<const T*>(arrays.dout),
            .logsumexp = arrays.logsumexp,
            .delta = arrays.delta,
            .part_dqueries = arrays.dqueries,
            .part_dkeys = arrays.dkeys_values});
  });
}

}  // namespace muster
