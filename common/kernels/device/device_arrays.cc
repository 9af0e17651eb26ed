#include "common/kernels/device/device_arrays.h"

#include "common/kernels/device/column_sums.h"
#include "common/kernels/device/simt/elements.h"

namespace muster {
namespace {

template <typename From, typename To>
struct ConvertOp {
  static constexpr const char* kName = "convert";

  const From* x;
  To* y;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    float values[N];
    LoadFloats<N>(x + i, values);
    StoreFloats<N>(values, y + i);
  }
};

template <typename From, typename To>
struct ConvertRowsOp {
  static constexpr const char* kName = "convert rows";

  StridedRows rows;
  const From* x;
  To* y;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    const Place place = PlaceOf(i, rows.columns);
    float values[N];
    LoadFloats<N>(x + place.row * rows.from_stride + place.column, values);
    StoreFloats<N>(values, y + place.row * rows.to_stride + place.column);
  }
};

struct AddOp {
  static constexpr const char* kName = "add";

  const float* x;
  float* y;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    float values[N], sums[N];
    LoadFloats<N>(x + i, values);
    LoadFloats<N>(y + i, sums);
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j] += values[j];
    StoreFloats<N>(sums, y + i);
  }
};

struct ScaleOp {
  static constexpr const char* kName = "scale";

  float factor;
  float* x;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    float values[N];
    LoadFloats<N>(x + i, values);
#pragma unroll
    for (int j = 0; j < N; ++j) values[j] *= factor;
    StoreFloats<N>(values, x + i);
  }
};

// Sum over a block in f64, in one order, on every thread.
template <int kThreads>
MUSTER_DEVICE double BlockSumDouble(double* shared, double x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x += ShuffleXor(x, mask);
  if (LaneIndex() == 0) shared[WarpIndex()] = x;
  SyncBlock();
  x = 0;
#pragma unroll
  for (int i = 0; i < kThreads / 32; ++i) x += shared[i];
  return x;
}

// A block per run.
struct SquaresKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr const char* kName = "sum of squares";

  int64_t n;
  bool packed;
  const float* x;
  double* partial;

  MUSTER_DEVICE void Run() const {
    const int64_t first = BlockX() * kSquaresRun;
    const int64_t end = Min64(first + kSquaresRun, n);
    double sum = 0;
    for (int64_t i = first + ThreadIndex() * 8; i < end; i += kThreads * 8) {
      float v[8] = {};
      if (packed && i + 8 <= end) {
        LoadFloats<8>(x + i, v);
      } else {
        for (int j = 0; j < 8 && i + j < end; ++j) v[j] = x[i + j];
      }
      // In f64 from the start: squares of f32 overflow from 1.8e19 on.
#pragma unroll
      for (int j = 0; j < 8; ++j) sum += static_cast<double>(v[j]) * v[j];
    }
    sum = BlockSumDouble<kThreads>(reinterpret_cast<double*>(SharedMemory()), sum);
    if (ThreadIndex() == 0) partial[BlockX()] = sum;
  }
};

struct SumRunsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "sum of runs";

  int64_t runs;
  Accumulation accumulation;
  const double* partial;
  double* result;

  MUSTER_DEVICE void Run() const {
    double sum = 0;
    for (int64_t i = ThreadIndex(); i < runs; i += kThreads) sum += partial[i];
    sum = BlockSumDouble<kThreads>(reinterpret_cast<double*>(SharedMemory()), sum);
    if (ThreadIndex() == 0) *result = (accumulation == Accumulation::kAdd ? *result : 0.0) + sum;
  }
};

}  // namespace

void DeviceAddRowSums(DeviceStream& stream, DType type, int64_t rows, int64_t cols, int64_t stride,
                      const void* x, float* sums, float* scratch) {
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    const int64_t run = kRowSumsRuns.RowsOfRun(rows);
    const int64_t runs = CeilDiv(rows, run);
    const bool once = runs == 1;
    LaunchColumnSums(stream, rows, cols, stride, run,
                     once ? Accumulation::kAdd : Accumulation::kWrite, static_cast<const T*>(x),
                     once ? sums : scratch);
    if (!once) {
      LaunchColumnSums<float>(stream, runs, cols, cols, runs, Accumulation::kAdd, scratch, sums);
    }
  });
}

void DeviceConvert(DeviceStream& stream, int64_t n, DType from, const void* x, DType to, void* y) {
  const bool packed = IsAligned16(x) && IsAligned16(y);
  WithStorageType(from, [&](auto from_zero) {
    using From = decltype(from_zero);
    WithStorageType(to, [&](auto to_zero) {
      using To = decltype(to_zero);
      ForElements(stream, n, packed,
                  ConvertOp<From, To>{static_cast<const From*>(x), static_cast<To*>(y)});
    });
  });
}

void DeviceConvertRows(DeviceStream& stream, const StridedRows& rows, DType from, const void* x,
                       DType to, void* y) {
  const bool packed = IsAligned16(x) && IsAligned16(y) && rows.columns % 8 == 0 &&
                      rows.from_stride % 8 == 0 && rows.to_stride % 8 == 0;
  WithStorageType(from, [&](auto from_zero) {
    using From = decltype(from_zero);
    WithStorageType(to, [&](auto to_zero) {
      using To = decltype(to_zero);
      ForElements(stream, rows.rows * rows.columns, packed,
                  ConvertRowsOp<From, To>{rows, static_cast<const From*>(x), static_cast<To*>(y)});
    });
  });
}

void DeviceAdd(DeviceStream& stream, int64_t n, const float* x, float* y) {
  ForElements(stream, n, IsAligned16(x) && IsAligned16(y), AddOp{x, y});
}

void DeviceScale(DeviceStream& stream, int64_t n, float factor, float* x) {
  ForElements(stream, n, IsAligned16(x), ScaleOp{factor, x});
}

void DeviceSumOfSquares(DeviceStream& stream, int64_t n, const float* x, Accumulation accumulation,
                        double* sum, double* scratch) {
  const int64_t runs = CeilDiv(n, kSquaresRun);
  constexpr size_t kShared = SquaresKernel::kThreads / 32 * sizeof(double);
  Launch(stream, {.x = runs}, kShared, SquaresKernel{n, IsAligned16(x), x, scratch});
  Launch(stream, {}, kShared, SumRunsKernel{runs, accumulation, scratch, sum});
}

}  // namespace muster
