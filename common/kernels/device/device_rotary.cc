#include "common/kernels/device/device_rotary.h"

#include "common/kernels/device/simt/elements.h"

namespace muster {
namespace {

// An element is a pair: number i of rows · heads · (D / 2).
template <typename T>
struct RotaryOp {
  static constexpr const char* kName = "rotary";

  int64_t context;
  int64_t first_position;
  const int32_t* token_positions;
  int64_t heads;
  int64_t half;
  int64_t stride;
  float direction;
  const float* table;
  T* x;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    const Place in_head = PlaceOf(i, half);
    const Place head = PlaceOf(in_head.row, heads);
    const int64_t position = token_positions != nullptr
                                 ? token_positions[head.row]
                                 : first_position + PlaceOf(head.row, context).column;
    const float* cosines = table + position * 2 * half + in_head.column;
    T* low = x + head.row * stride + head.column * 2 * half + in_head.column;
    float cosine[N], sine[N], a[N], b[N];
    LoadFloats<N>(cosines, cosine);
    LoadFloats<N>(cosines + half, sine);
    LoadFloats<N>(low, a);
    LoadFloats<N>(low + half, b);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float s = direction * sine[j];
      const float turned = a[j] * cosine[j] - b[j] * s;
      b[j] = b[j] * cosine[j] + a[j] * s;
      a[j] = turned;
    }
    StoreFloats<N>(a, low);
    StoreFloats<N>(b, low + half);
  }
};

void Turn(DeviceStream& stream, const RotaryShape& shape, DType type, const float* table,
          float direction, void* x) {
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    const int64_t half = shape.head_dim / 2;
    const bool packed =
        half % 8 == 0 && shape.stride % 8 == 0 && IsAligned16(table) && IsAligned16(x);
    ForElements(stream, shape.rows * shape.heads * half, packed,
                RotaryOp<T>{shape.context, shape.first_position, shape.token_positions, shape.heads,
                            half, shape.stride, direction, table, static_cast<T*>(x)});
  });
}

}  // namespace

void DeviceRotary(DeviceStream& stream, const RotaryShape& shape, DType type, const float* table,
                  void* x) {
  Turn(stream, shape, type, table, 1, x);
}

void DeviceRotaryBackward(DeviceStream& stream, const RotaryShape& shape, DType type,
                          const float* table, void* dx) {
  Turn(stream, shape, type, table, -1, dx);
}

}  // namespace muster
