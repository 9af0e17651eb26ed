#include "common/kernels/device/experts/device_expert_rows.h"

#include "common/kernels/device/activation_functions.h"
#include "common/kernels/device/simt/elements.h"

namespace muster {
namespace {

struct OrderHostedOp {
  static constexpr const char* kName = "order hosted rows";

  HostedRowsShape shape;
  const int32_t* rank_offsets;
  int32_t* offsets;
  int32_t* numbers;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    for (int j = 0; j < N; ++j) One(i + j);
  }

 private:
  MUSTER_DEVICE void One(int64_t i) const {
    if (i < shape.rows) numbers[i] = static_cast<int32_t>(i);
    const int64_t of_rank = shape.experts / shape.ranks, first = shape.rank * of_rank;
    if (i > of_rank) return;
    int64_t before = -shape.first;
    for (int64_t source = 0; source < shape.ranks; ++source) {
      const int32_t* const of_source = rank_offsets + source * (shape.experts + 1) + first;
      before += of_source[i] - of_source[0];
    }
    offsets[i] = static_cast<int32_t>(before < 0 ? 0 : Min64(before, shape.rows));
  }
};

template <typename T>
struct GatherOp {
  static constexpr const char* kName = "gather rows";

  int64_t width;
  int64_t top_k;
  const T* x;
  const int32_t* assignments;
  T* rows;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    const Place place = PlaceOf(i, width);
    const int64_t token = PlaceOf(assignments[place.row], top_k).row;
    const T* const from = x + token * width + place.column;
    // Packs have 16 bytes at most.
    constexpr int kStep = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
#pragma unroll
    for (int j = 0; j < N; j += kStep) StorePack<kStep>(LoadPack<kStep>(from + j), rows + i + j);
  }
};

template <typename T>
struct CombineOp {
  static constexpr const char* kName = "combine rows";

  int64_t width;
  int64_t top_k;
  CombineArrays arrays;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    const Place place = PlaceOf(i, width);
    float sum[N] = {};
#pragma unroll
    for (int b = 0; b < 3; ++b) {
      if (arrays.bases[b] != nullptr) AddTo<N>(static_cast<const T*>(arrays.bases[b]) + i, sum);
    }
    const T* const rows = static_cast<const T*>(arrays.rows) + place.column;
    for (int64_t j = 0; j < top_k; ++j) {
      const int32_t row = arrays.places[place.row * top_k + j];
      if (arrays.kept == nullptr || row < *arrays.kept) AddTo<N>(rows + row * width, sum);
    }
    StoreFloats<N>(sum, static_cast<T*>(arrays.out) + i);
  }

 private:
  template <int N>
  MUSTER_DEVICE static void AddTo(const T* from, float (&sum)[N]) {
    float added[N];
    LoadFloats<N>(from, added);
#pragma unroll
    for (int j = 0; j < N; ++j) sum[j] += added[j];
  }
};

template <typename T>
struct GateOp {
  static constexpr const char* kName = "gate rows";

  int64_t width;
  GateRowsArrays arrays;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    const float gate = Sigmoid(arrays.logits[PlaceOf(i, width).row]);
    float x[N];
    LoadFloats<N>(static_cast<const T*>(arrays.x) + i, x);
#pragma unroll
    for (int j = 0; j < N; ++j) x[j] *= gate;
    StoreFloats<N>(x, static_cast<T*>(arrays.y) + i);
  }
};

template <typename T>
struct ActivateOp {
  static constexpr const char* kName = "activate experts";

  int64_t F;
  bool gated;
  ExpertActivationArrays arrays;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    const Place place = PlaceOf(i, F);
    const float weight = arrays.weights[arrays.assignments[place.row]];
    const T* const x = static_cast<const T*>(arrays.x) + (gated ? i + place.row * F : i);
    float v[N];
    LoadFloats<N>(x, v);
    if (gated) {
      float up[N];
      LoadFloats<N>(x + F, up);
#pragma unroll
      for (int j = 0; j < N; ++j) v[j] = Silu(v[j]) * up[j] * weight;
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) v[j] = Gelu(v[j]) * weight;
    }
    StoreFloats<N>(v, static_cast<T*>(arrays.y) + i);
  }
};

// Work on rows with a sum over each: a warp takes a row, N neighbouring columns at a time.
// Op::Do(row, column) returns its part of the sum, and Op::Finish(row, sum) takes the sum on one
// lane.
template <typename Op, int N>
struct RowsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr const char* kName = Op::kName;
  static constexpr int kWarps = kThreads / 32;

  int64_t rows;
  int64_t width;
  Op op;

  MUSTER_DEVICE void Run() const {
    const int64_t row = static_cast<int64_t>(BlockX()) * kWarps + WarpIndex();
    if (row >= rows) return;
    float sum = 0;
    for (int64_t c = LaneIndex() * N; c < width; c += 32 * N) sum += op.template Do<N>(row, c);
    sum = WarpSum(sum);
    if (LaneIndex() == 0) op.Finish(row, sum);
  }
};

template <typename Op>
void ForRows(DeviceStream& stream, int64_t rows, int64_t width, bool packed, const Op& op) {
  const int64_t blocks = CeilDiv(rows, RowsKernel<Op, 1>::kWarps);
  if (packed) {
    Launch(stream, {.x = blocks}, 0, RowsKernel<Op, 8>{rows, width, op});
  } else {
    Launch(stream, {.x = blocks}, 0, RowsKernel<Op, 1>{rows, width, op});
  }
}

template <typename T>
struct GateBackwardOp {
  static constexpr const char* kName = "gate rows backward";

  int64_t width;
  GateRowsGradientArrays arrays;

  template <int N>
  MUSTER_DEVICE float Do(int64_t row, int64_t column) const {
    const float gate = Sigmoid(arrays.logits[row]);
    const int64_t at = row * width + column;
    float x[N], d[N];
    LoadFloats<N>(static_cast<const T*>(arrays.x) + at, x);
    LoadFloats<N>(static_cast<const T*>(arrays.dy) + at, d);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      sum += d[j] * x[j];
      d[j] *= gate;
    }
    StoreFloats<N>(d, static_cast<T*>(arrays.dx) + at);
    return sum;
  }
  MUSTER_DEVICE void Finish(int64_t row, float sum) const {
    const float logit = arrays.logits[row];
    static_cast<T*>(arrays.dlogits)[row] = Narrow<T>(Sigmoid(logit) * Sigmoid(-logit) * sum);
  }
};

template <typename T>
struct ActivateBackwardOp {
  static constexpr const char* kName = "activate experts backward";

  int64_t F;
  bool gated;
  ExpertActivationGradientArrays arrays;

  template <int N>
  MUSTER_DEVICE float Do(int64_t row, int64_t column) const {
    const float weight = arrays.weights[arrays.assignments[row]];
    const int64_t at = row * (gated ? 2 * F : F) + column;
    const T* const x = static_cast<const T*>(arrays.x) + at;
    T* const dx = static_cast<T*>(arrays.dx) + at;
    float v[N], d[N];
    LoadFloats<N>(x, v);
    LoadFloats<N>(static_cast<const T*>(arrays.dy) + row * F + column, d);
    float sum = 0;
    if (gated) {
      float up[N];
      LoadFloats<N>(x + F, up);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float silu = Silu(v[j]), weighted = d[j] * weight;
        sum += d[j] * (silu * up[j]);
        v[j] = weighted * up[j] * SiluSlope(v[j]);
        up[j] = weighted * silu;
      }
      StoreFloats<N>(up, dx + F);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        sum += d[j] * Gelu(v[j]);
        v[j] = d[j] * weight * GeluSlope(v[j]);
      }
    }
    StoreFloats<N>(v, dx);
    return sum;
  }
  MUSTER_DEVICE void Finish(int64_t row, float sum) const {
    arrays.dweights[arrays.assignments[row]] = sum;
  }
};

}  // namespace

void DeviceOrderHostedRows(DeviceStream& stream, const HostedRowsShape& shape,
                           const int32_t* rank_offsets, int32_t* offsets, int32_t* numbers) {
  const int64_t places = shape.experts / shape.ranks + 1;
  ForElements(stream, shape.rows < places ? places : shape.rows, /*packed=*/false,
              OrderHostedOp{shape, rank_offsets, offsets, numbers});
}

void DeviceGatherRows(DeviceStream& stream, const TokenRowsShape& shape, const void* x,
                      const int32_t* assignments, void* rows) {
  WithStorageType(shape.type, [&](auto zero) {
    using T = decltype(zero);
    ForElements(stream, shape.tokens * shape.top_k * shape.width,
                shape.width % 8 == 0 && IsAligned16(x) && IsAligned16(rows),
                GatherOp<T>{shape.width, shape.top_k, static_cast<const T*>(x), assignments,
                            static_cast<T*>(rows)});
  });
}

void DeviceCombineRows(DeviceStream& stream, const TokenRowsShape& shape,
                       const CombineArrays& arrays) {
  bool packed = shape.width % 8 == 0 && IsAligned16(arrays.rows) && IsAligned16(arrays.out);
  for (const void* base : arrays.bases) packed = packed && IsAligned16(base);
  WithStorageType(shape.type, [&](auto zero) {
    ForElements(stream, shape.tokens * shape.width, packed,
                CombineOp<decltype(zero)>{shape.width, shape.top_k, arrays});
  });
}

void DeviceGateRows(DeviceStream& stream, const TokenRowsShape& shape,
                    const GateRowsArrays& arrays) {
  const bool packed = shape.width % 8 == 0 && IsAligned16(arrays.x) && IsAligned16(arrays.y);
  WithStorageType(shape.type, [&](auto zero) {
    ForElements(stream, shape.tokens * shape.width, packed,
                GateOp<decltype(zero)>{shape.width, arrays});
  });
}

void DeviceGateRowsBackward(DeviceStream& stream, const TokenRowsShape& shape,
                            const GateRowsGradientArrays& arrays) {
  const bool packed = shape.width % 8 == 0 && IsAligned16(arrays.x) && IsAligned16(arrays.dy) &&
                      IsAligned16(arrays.dx);
  WithStorageType(shape.type, [&](auto zero) {
    ForRows(stream, shape.tokens, shape.width, packed,
            GateBackwardOp<decltype(zero)>{shape.width, arrays});
  });
}

void DeviceActivateExperts(DeviceStream& stream, const ExpertActivation& activation,
                           const ExpertActivationArrays& arrays) {
  const bool packed = activation.F % 8 == 0 && IsAligned16(arrays.x) && IsAligned16(arrays.y);
  WithStorageType(activation.type, [&](auto zero) {
    ForElements(stream, activation.rows * activation.F, packed,
                ActivateOp<decltype(zero)>{activation.F, activation.gated, arrays});
  });
}

void DeviceActivateExpertsBackward(DeviceStream& stream, const ExpertActivation& activation,
                                   const ExpertActivationGradientArrays& arrays) {
  const bool packed = activation.F % 8 == 0 && IsAligned16(arrays.x) && IsAligned16(arrays.dy) &&
                      IsAligned16(arrays.dx);
  WithStorageType(activation.type, [&](auto zero) {
    ForRows(stream, activation.rows, activation.F, packed,
            ActivateBackwardOp<decltype(zero)>{activation.F, activation.gated, arrays});
  });
}

}  // namespace muster
