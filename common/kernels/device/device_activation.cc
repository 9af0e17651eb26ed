#include "common/kernels/device/device_activation.h"

#include "common/kernels/device/activation_functions.h"
#include "common/kernels/device/simt/elements.h"

namespace muster {
namespace {

template <typename T>
struct GeluOp {
  static constexpr const char* kName = "gelu";

  const T* x;
  T* y;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    float v[N];
    LoadFloats<N>(x + i, v);
#pragma unroll
    for (int j = 0; j < N; ++j) v[j] = Gelu(v[j]);
    StoreFloats<N>(v, y + i);
  }
};

template <typename T>
struct GeluBackwardOp {
  static constexpr const char* kName = "gelu backward";

  const T* x;
  const T* dy;
  T* dx;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    float v[N], d[N];
    LoadFloats<N>(x + i, v);
    LoadFloats<N>(dy + i, d);
#pragma unroll
    for (int j = 0; j < N; ++j) d[j] *= GeluSlope(v[j]);
    StoreFloats<N>(d, dx + i);
  }
};

template <typename T>
struct SwiGluOp {
  static constexpr const char* kName = "swiglu";

  int64_t F;
  const T* gate_up;
  T* y;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    const Place place = PlaceOf(i, F);
    const T* gates = gate_up + place.row * 2 * F + place.column;
    float gate[N], up[N];
    LoadFloats<N>(gates, gate);
    LoadFloats<N>(gates + F, up);
#pragma unroll
    for (int j = 0; j < N; ++j) up[j] *= Silu(gate[j]);
    StoreFloats<N>(up, y + i);
  }
};

template <typename T>
struct SwiGluBackwardOp {
  static constexpr const char* kName = "swiglu backward";

  int64_t F;
  const T* gate_up;
  const T* dy;
  T* d_gate_up;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    const Place place = PlaceOf(i, F);
    const int64_t at = place.row * 2 * F + place.column;
    float gate[N], up[N], d[N];
    LoadFloats<N>(gate_up + at, gate);
    LoadFloats<N>(gate_up + at + F, up);
    LoadFloats<N>(dy + i, d);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float silu = Silu(gate[j]);
      gate[j] = d[j] * up[j] * SiluSlope(gate[j]);
      up[j] = d[j] * silu;
    }
    StoreFloats<N>(gate, d_gate_up + at);
    StoreFloats<N>(up, d_gate_up + at + F);
  }
};

}  // namespace

void DeviceGelu(DeviceStream& stream, DType type, int64_t n, const void* x, void* y) {
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    ForElements(stream, n, IsAligned16(x) && IsAligned16(y),
                GeluOp<T>{static_cast<const T*>(x), static_cast<T*>(y)});
  });
}

void DeviceGeluBackward(DeviceStream& stream, DType type, int64_t n, const void* x, const void* dy,
                        void* dx) {
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    ForElements(stream, n, IsAligned16(x) && IsAligned16(dy) && IsAligned16(dx),
                GeluBackwardOp<T>{static_cast<const T*>(x), static_cast<const T*>(dy),
                                  static_cast<T*>(dx)});
  });
}

void DeviceSwiGlu(DeviceStream& stream, DType type, int64_t rows, int64_t F, const void* gate_up,
                  void* y) {
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    ForElements(stream, rows * F, F % 8 == 0 && IsAligned16(gate_up) && IsAligned16(y),
                SwiGluOp<T>{F, static_cast<const T*>(gate_up), static_cast<T*>(y)});
  });
}

void DeviceSwiGluBackward(DeviceStream& stream, DType type, int64_t rows, int64_t F,
                          const void* gate_up, const void* dy, void* d_gate_up) {
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    const bool packed =
        F % 8 == 0 && IsAligned16(gate_up) && IsAligned16(dy) && IsAligned16(d_gate_up);
    ForElements(stream, rows * F, packed,
                SwiGluBackwardOp<T>{F, static_cast<const T*>(gate_up), static_cast<const T*>(dy),
                                    static_cast<T*>(d_gate_up)});
  });
}

}  // namespace muster
