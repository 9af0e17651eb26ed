// A block takes a row: each thread the same columns, eight neighbours at a time, in every pass, so
// that what it keeps of the row in shared memory is its own and needs no barrier.
#include "common/kernels/device/device_norm.h"

#include "common/kernels/device/column_sums.h"
#include "common/kernels/device/dropout_factors.h"
#include "common/kernels/device/simt/elements.h"
#include "common/kernels/device/simt/simt.h"

namespace muster {
namespace {

// Columns [c, c + N) of a row in shared memory: eights as two planes of fours, without which the
// lanes' 16-byte accesses would meet in the same banks.
template <int N>
MUSTER_DEVICE void KeepColumns(float* kept, int64_t width, int64_t c, const float (&x)[N]) {
  if constexpr (N == 1) {
    kept[c] = x[0];
  } else {
    StorePack<4>(Pack<float, 4>{{x[0], x[1], x[2], x[3]}}, kept + c / 2);
    StorePack<4>(Pack<float, 4>{{x[4], x[5], x[6], x[7]}}, kept + width / 2 + c / 2);
  }
}
template <int N>
MUSTER_DEVICE void KeptColumns(const float* kept, int64_t width, int64_t c, float (&x)[N]) {
  if constexpr (N == 1) {
    x[0] = kept[c];
  } else {
    const Pack<float, 4> low = LoadPack<4>(kept + c / 2);
    const Pack<float, 4> high = LoadPack<4>(kept + width / 2 + c / 2);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      x[j] = low.v[j];
      x[4 + j] = high.v[j];
    }
  }
}

template <int kThreadCount>
constexpr size_t kReduceFloats = 2 * kThreadCount / 32;

template <typename T, int N, int kThreadCount>
struct NormKernel {
  static constexpr int kThreads = kThreadCount;
  static constexpr int kMinBlocks = 1024 / kThreadCount;
  static constexpr const char* kName = "norm";

  NormShape shape;
  OpNormInputs in;
  OpNormOutputs out;

  size_t SharedBytes() const { return (shape.width + kReduceFloats<kThreads>)*sizeof(float); }

  MUSTER_DEVICE void Run() const {
    float* const kept = reinterpret_cast<float*>(SharedMemory());
    float* const reduce = kept + shape.width;
    const int64_t C = shape.width;
    const int64_t row = BlockX();
    const float inverse_width = 1.0f / static_cast<float>(C);
    float total = 0;
    for (int64_t c = ThreadIndex() * N; c < C; c += kThreads * N) {
      float x[N];
      LoadFloats<N>(in.x + row * C + c, x);
      if (in.branch != nullptr) {
        AddBranch(row, c, x);
        StoreFloats<N>(x, out.sum + row * C + c);
      }
      KeepColumns<N>(kept, C, c, x);
#pragma unroll
      for (int j = 0; j < N; ++j) total += x[j];
    }
    float mean = 0;
    if (shape.kind == NormKind::kLayerNorm) {
      mean = BlockSum<kThreads>(reduce, total) * inverse_width;
    }
    float squares = 0;
    for (int64_t c = ThreadIndex() * N; c < C; c += kThreads * N) {
      float x[N];
      KeptColumns<N>(kept, C, c, x);
#pragma unroll
      for (int j = 0; j < N; ++j) squares += (x[j] - mean) * (x[j] - mean);
    }
    squares = BlockSum<kThreads>(reduce, squares);
    const float rstd = Rsqrt(squares * inverse_width + shape.epsilon);
    for (int64_t c = ThreadIndex() * N; c < C; c += kThreads * N) {
      float x[N], gain[N], bias[N] = {};
      KeptColumns<N>(kept, C, c, x);
      LoadFloats<N>(in.gain + c, gain);
      if (in.bias != nullptr) LoadFloats<N>(in.bias + c, bias);
#pragma unroll
      for (int j = 0; j < N; ++j) x[j] = (x[j] - mean) * rstd * gain[j] + bias[j];
      StoreFloats<N>(x, static_cast<T*>(out.out) + row * C + c);
    }
    if (ThreadIndex() == 0) {
      if (out.mean != nullptr && shape.kind == NormKind::kLayerNorm) out.mean[row] = mean;
      if (out.rstd != nullptr) out.rstd[row] = rstd;
    }
  }

  MUSTER_DEVICE void AddBranch(int64_t row, int64_t c, float (&x)[N]) const {
    float branch[N];
    LoadFloats<N>(static_cast<const T*>(in.branch) + row * shape.width + c, branch);
    if (in.dropout.clock != nullptr) {
      float factors[N];
      DropoutFactorsAt<N>(in.dropout, in.rows_per_example * shape.width, row * shape.width + c,
                          factors);
#pragma unroll
      for (int j = 0; j < N; ++j) branch[j] *= factors[j];
    }
#pragma unroll
    for (int j = 0; j < N; ++j) x[j] += branch[j];
  }
};

// A block takes a run of rows, one after another, and keeps the sums for gain and bias of its
// columns in shared memory, from where they go to `partial`, [runs, 2, width], to be added by a
// second kernel. With n = (x - mean) · rstd and g = dout · gain:
//   dx = dsum + rstd · (g - mean(g) - n · mean(g · n)), without mean(g) for kRmsNorm.
template <typename T, int N, int kThreadCount>
struct NormBackwardKernel {
  static constexpr int kThreads = kThreadCount;
  static constexpr int kMinBlocks = 1024 / kThreadCount;
  static constexpr const char* kName = "norm backward";

  NormShape shape;
  OpNormBackwardInputs in;
  OpNormGradients gradients;
  int64_t run;
  float* partial;

  size_t SharedBytes() const { return (2 * shape.width + kReduceFloats<kThreads>)*sizeof(float); }

  MUSTER_DEVICE void Run() const {
    float* const gain_sums = reinterpret_cast<float*>(SharedMemory());
    float* const bias_sums = gain_sums + shape.width;
    const int64_t C = shape.width;
    const int64_t first = BlockX() * run;
    const int64_t end = Min64(first + run, shape.rows);
    const float zero[N] = {};
    for (int64_t c = ThreadIndex() * N; c < C; c += kThreads * N) {
      KeepColumns<N>(gain_sums, C, c, zero);
      KeepColumns<N>(bias_sums, C, c, zero);
    }
    for (int64_t row = first; row < end; ++row) Row(row, gain_sums, bias_sums);
    for (int64_t c = ThreadIndex() * N; c < C; c += kThreads * N) {
      float sums[N];
      KeptColumns<N>(gain_sums, C, c, sums);
      StoreFloats<N>(sums, partial + 2 * BlockX() * C + c);
      KeptColumns<N>(bias_sums, C, c, sums);
      StoreFloats<N>(sums, partial + (2 * BlockX() + 1) * C + c);
    }
  }

  MUSTER_DEVICE void Row(int64_t row, float* gain_sums, float* bias_sums) const {
    const int64_t C = shape.width;
    const bool centered = shape.kind == NormKind::kLayerNorm;
    const float inverse_width = 1.0f / static_cast<float>(C);
    const float mean = centered ? in.mean[row] : 0.0f;
    const float rstd = in.rstd[row];
    const float* const x_row = in.sum + row * C;
    const T* const dout_row = static_cast<const T*>(in.dout) + row * C;
    float g_mean = 0, gn_mean = 0;
    for (int64_t c = ThreadIndex() * N; c < C; c += kThreads * N) {
      float n[N], d[N], gain[N];
      LoadFloats<N>(x_row + c, n);
      LoadFloats<N>(dout_row + c, d);
      LoadFloats<N>(in.gain + c, gain);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        n[j] = (n[j] - mean) * rstd;
        g_mean += d[j] * gain[j];
        gn_mean += d[j] * gain[j] * n[j];
      }
      float sums[N];
      KeptColumns<N>(gain_sums, C, c, sums);
#pragma unroll
      for (int j = 0; j < N; ++j) sums[j] += d[j] * n[j];
      KeepColumns<N>(gain_sums, C, c, sums);
      KeptColumns<N>(bias_sums, C, c, sums);
#pragma unroll
      for (int j = 0; j < N; ++j) sums[j] += d[j];
      KeepColumns<N>(bias_sums, C, c, sums);
    }
    BlockSum2<kThreads>(bias_sums + C, g_mean, gn_mean);
    g_mean = centered ? g_mean * inverse_width : 0.0f;
    gn_mean *= inverse_width;
    // Again from memory, now from a cache.
    for (int64_t c = ThreadIndex() * N; c < C; c += kThreads * N) {
      float n[N], d[N], gain[N], dsum[N] = {};
      LoadFloats<N>(x_row + c, n);
      LoadFloats<N>(dout_row + c, d);
      LoadFloats<N>(in.gain + c, gain);
      if (in.dsum != nullptr) LoadFloats<N>(in.dsum + row * C + c, dsum);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        n[j] = (n[j] - mean) * rstd;
        d[j] = (d[j] * gain[j] - g_mean - n[j] * gn_mean) * rstd + dsum[j];
      }
      StoreFloats<N>(d, gradients.dx + row * C + c);
      if (gradients.dbranch == nullptr) continue;
      if (in.dropout.clock != nullptr) {
        float factors[N];
        DropoutFactorsAt<N>(in.dropout, in.rows_per_example * C, row * C + c, factors);
#pragma unroll
        for (int j = 0; j < N; ++j) d[j] *= factors[j];
      }
      StoreFloats<N>(d, static_cast<T*>(gradients.dbranch) + row * C + c);
    }
  }
};

// Blocks of fewer threads for short rows, which would leave most idle.
constexpr int64_t kShortRow = 1024;

// f(type, eights or ones, threads of a block), as constants.
template <typename F>
void WithVariant(DType type, bool packed, int64_t width, const F& f) {
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    if (!packed) {
      f.template Do<T, 1, 256>();
    } else if (width <= kShortRow) {
      f.template Do<T, 8, 128>();
    } else {
      f.template Do<T, 8, 256>();
    }
  });
}

struct LaunchNorm {
  DeviceStream& stream;
  const NormShape& shape;
  const OpNormInputs& in;
  const OpNormOutputs& out;

  template <typename T, int N, int kThreads>
  void Do() const {
    const NormKernel<T, N, kThreads> kernel{shape, in, out};
    Launch(stream, {.x = shape.rows}, kernel.SharedBytes(), kernel);
  }
};

struct LaunchNormBackward {
  DeviceStream& stream;
  const NormShape& shape;
  const OpNormBackwardInputs& in;
  const OpNormGradients& gradients;
  int64_t run;
  float* partial;

  template <typename T, int N, int kThreads>
  void Do() const {
    const NormBackwardKernel<T, N, kThreads> kernel{shape, in, gradients, run, partial};
    Launch(stream, {.x = CeilDiv(shape.rows, run)}, kernel.SharedBytes(), kernel);
  }
};

}  // namespace

void DeviceNorm(DeviceStream& stream, const NormShape& shape, DType type, const OpNormInputs& in,
                const OpNormOutputs& out) {
  const bool packed = shape.width % 8 == 0 && IsAligned16(in.x) && IsAligned16(in.branch) &&
                      IsAligned16(in.gain) && IsAligned16(in.bias) && IsAligned16(out.sum) &&
                      IsAligned16(out.out);
  WithVariant(type, packed, shape.width, LaunchNorm{stream, shape, in, out});
}

size_t DeviceNormSharedBytes(int64_t width) {
  return (2 * width + kReduceFloats<256>)*sizeof(float);
}

void DeviceNormBackward(DeviceStream& stream, const NormShape& shape, DType type,
                        const OpNormBackwardInputs& in, const OpNormGradients& gradients,
                        float* scratch) {
  if (shape.rows == 0) return;
  const bool packed = shape.width % 8 == 0 && IsAligned16(in.sum) && IsAligned16(in.gain) &&
                      IsAligned16(in.dout) && IsAligned16(in.dsum) && IsAligned16(gradients.dx) &&
                      IsAligned16(gradients.dbranch) && IsAligned16(scratch);
  const int64_t run = kNormRuns.RowsOfRun(shape.rows);
  const int64_t runs = CeilDiv(shape.rows, run);
  WithVariant(type, packed, shape.width,
              LaunchNormBackward{stream, shape, in, gradients, run, scratch});
  const int64_t stride = 2 * shape.width;
  LaunchColumnSums<float>(stream, runs, shape.width, stride, runs, Accumulation::kAdd, scratch,
                          gradients.gain);
  if (gradients.bias != nullptr) {
    LaunchColumnSums<float>(stream, runs, shape.width, stride, runs, Accumulation::kAdd,
                            scratch + shape.width, gradients.bias);
  }
}

}  // namespace muster
