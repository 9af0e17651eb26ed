// A team of threads takes a group, each thread the same columns in every pass: a warp where groups
// are narrow, as heads are, or a block. What a team keeps of columns in shared memory is its
// threads' own.
#include "common/kernels/device/device_head_norm.h"

#include "common/kernels/device/column_sums.h"
#include "common/kernels/device/simt/simt.h"

namespace muster {
namespace {

constexpr int kHeadNormThreads = 256;
constexpr int kHeadNormWarps = kHeadNormThreads / 32;
// Up to so many columns are a warp's, so that all teams' sums fit into any shared memory.
constexpr int64_t kNarrowGroup = 512;

template <int kTeamThreads>
struct HeadNormTeam {
  static constexpr int kThreads = kTeamThreads;
  static constexpr int kTeams = kHeadNormThreads / kTeamThreads;
  static constexpr size_t kReduceFloats = kTeams == 1 ? 2 * kHeadNormWarps : 0;

  MUSTER_DEVICE static int Index() { return kTeams == 1 ? 0 : WarpIndex(); }
  MUSTER_DEVICE static int Thread() { return kTeams == 1 ? ThreadIndex() : LaneIndex(); }
  // Adds up x of all threads of the team, which all call it; `reduce` has kReduceFloats of the
  // block.
  MUSTER_DEVICE static float Sum(float* reduce, float x) {
    if constexpr (kTeams == 1) {
      return BlockSum<kHeadNormThreads>(reduce, x);
    } else {
      return WarpSum(x);
    }
  }

  template <int N, typename T>
  MUSTER_DEVICE static float Rstd(const HeadNormShape& shape, const T* x, float* reduce) {
    float squares = 0;
    for (int64_t c = Thread() * N; c < shape.width; c += kThreads * N) {
      float v[N];
      LoadFloats<N>(x + c, v);
#pragma unroll
      for (int j = 0; j < N; ++j) squares += v[j] * v[j];
    }
    squares = Sum(reduce, squares);
    return Rsqrt(squares / static_cast<float>(shape.width) + shape.epsilon);
  }
};

template <typename T, int N, typename Team>
struct HeadNormKernel {
  static constexpr int kThreads = kHeadNormThreads;
  static constexpr int kMinBlocks = 4;
  static constexpr const char* kName = "head norm";

  HeadNormShape shape;
  const float* gain;
  T* x;
  T* kept;

  size_t SharedBytes() const { return Team::kReduceFloats * sizeof(float); }

  MUSTER_DEVICE void Run() const {
    float* const reduce = reinterpret_cast<float*>(SharedMemory());
    const int64_t group = static_cast<int64_t>(BlockX()) * Team::kTeams + Team::Index();
    if (group >= shape.rows * shape.groups) return;
    const int64_t row = group / shape.groups, first = group % shape.groups * shape.width;
    T* const in = x + row * shape.stride + first;
    const float rstd = Team::template Rstd<N>(shape, in, reduce);
    for (int64_t c = Team::Thread() * N; c < shape.width; c += Team::kThreads * N) {
      float v[N], weight[N];
      LoadFloats<N>(in + c, v);
      LoadFloats<N>(gain + c, weight);
      if (kept != nullptr) StoreFloats<N>(v, kept + row * shape.kept_stride + first + c);
#pragma unroll
      for (int j = 0; j < N; ++j) v[j] = v[j] * rstd * weight[j];
      StoreFloats<N>(v, in + c);
    }
  }
};

// A block takes a run of rows. Each team keeps its sums for the gain in shared memory; their sums
// over the teams go to `partial`, [runs, width], to be added by a second kernel. With n = x · rstd
// and g = dy · gain: dx = rstd · (g - n · mean(g · n)).
template <typename T, int N, typename Team>
struct HeadNormBackwardKernel {
  static constexpr int kThreads = kHeadNormThreads;
  static constexpr int kMinBlocks = 4;
  static constexpr const char* kName = "head norm backward";

  HeadNormShape shape;
  const T* kept;
  const float* gain;
  T* dx;
  int64_t run;
  float* partial;

  size_t SharedBytes() const {
    return (Team::kTeams * shape.width + Team::kReduceFloats) * sizeof(float);
  }

  MUSTER_DEVICE void Run() const {
    float* const sums_of_teams = reinterpret_cast<float*>(SharedMemory());
    float* const sums = sums_of_teams + Team::Index() * shape.width;
    float* const reduce = sums_of_teams + Team::kTeams * shape.width;
    for (int64_t c = Team::Thread() * N; c < shape.width; c += Team::kThreads * N) {
#pragma unroll
      for (int j = 0; j < N; ++j) sums[c + j] = 0;
    }
    const int64_t first = BlockX() * run * shape.groups;
    const int64_t end = Min64(BlockX() * run + run, shape.rows) * shape.groups;
    for (int64_t group = first + Team::Index(); group < end; group += Team::kTeams) {
      Group(group, sums, reduce);
    }
    SyncBlock();
    for (int64_t c = ThreadIndex(); c < shape.width; c += kThreads) {
      float total = 0;
#pragma unroll
      for (int team = 0; team < Team::kTeams; ++team)
        total += sums_of_teams[team * shape.width + c];
      partial[BlockX() * shape.width + c] = total;
    }
  }

  MUSTER_DEVICE void Group(int64_t group, float* sums, float* reduce) const {
    const int64_t row = group / shape.groups, first = group % shape.groups * shape.width;
    const T* const x = kept + row * shape.kept_stride + first;
    T* const d = dx + row * shape.stride + first;
    const float rstd = Team::template Rstd<N>(shape, x, reduce);
    float mean = 0;
    for (int64_t c = Team::Thread() * N; c < shape.width; c += Team::kThreads * N) {
      float n[N], dy[N], weight[N];
      LoadFloats<N>(x + c, n);
      LoadFloats<N>(d + c, dy);
      LoadFloats<N>(gain + c, weight);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float dn = dy[j] * n[j] * rstd;
        mean += dn * weight[j];
        sums[c + j] += dn;
      }
    }
    mean = Team::Sum(reduce, mean) / static_cast<float>(shape.width);
    for (int64_t c = Team::Thread() * N; c < shape.width; c += Team::kThreads * N) {
      float n[N], dy[N], weight[N];
      LoadFloats<N>(x + c, n);
      LoadFloats<N>(d + c, dy);
      LoadFloats<N>(gain + c, weight);
#pragma unroll
      for (int j = 0; j < N; ++j) dy[j] = (dy[j] * weight[j] - n[j] * rstd * mean) * rstd;
      StoreFloats<N>(dy, d + c);
    }
  }
};

// f(type, eights or ones, team of a warp or a block), as constants.
template <typename F>
void WithHeadNormVariant(const HeadNormShape& shape, DType type, bool packed, const F& f) {
  using Warp = HeadNormTeam<32>;
  using Block = HeadNormTeam<kHeadNormThreads>;
  WithStorageType(type, [&](auto zero) {
    using T = decltype(zero);
    const bool narrow = shape.width <= kNarrowGroup;
    if (packed && narrow) {
      f.template Do<T, 8, Warp>();
    } else if (packed) {
      f.template Do<T, 8, Block>();
    } else if (narrow) {
      f.template Do<T, 1, Warp>();
    } else {
      f.template Do<T, 1, Block>();
    }
  });
}

bool HasEights(const HeadNormShape& shape, const void* x, const void* kept, const float* gain) {
  return shape.width % 8 == 0 && shape.stride % 8 == 0 && shape.kept_stride % 8 == 0 &&
         IsAligned16(x) && IsAligned16(kept) && IsAligned16(gain);
}

struct LaunchHeadNorm {
  DeviceStream& stream;
  const HeadNormShape& shape;
  const HeadNormArrays& arrays;

  template <typename T, int N, typename Team>
  void Do() const {
    const HeadNormKernel<T, N, Team> kernel{shape, arrays.gain, static_cast<T*>(arrays.x),
                                            static_cast<T*>(arrays.kept)};
    Launch(stream, {.x = CeilDiv(shape.rows * shape.groups, Team::kTeams)}, kernel.SharedBytes(),
           kernel);
  }
};

struct LaunchHeadNormBackward {
  DeviceStream& stream;
  const HeadNormShape& shape;
  const HeadNormGradientArrays& arrays;
  int64_t run;
  float* partial;

  template <typename T, int N, typename Team>
  void Do() const {
    const HeadNormBackwardKernel<T, N, Team> kernel{shape,       static_cast<const T*>(arrays.kept),
                                                    arrays.gain, static_cast<T*>(arrays.dx),
                                                    run,         partial};
    Launch(stream, {.x = CeilDiv(shape.rows, run)}, kernel.SharedBytes(), kernel);
  }
};

}  // namespace

void DeviceHeadNorm(DeviceStream& stream, const HeadNormShape& shape, DType type,
                    const HeadNormArrays& arrays) {
  WithHeadNormVariant(shape, type, HasEights(shape, arrays.x, arrays.kept, arrays.gain),
                      LaunchHeadNorm{stream, shape, arrays});
}

void DeviceHeadNormBackward(DeviceStream& stream, const HeadNormShape& shape, DType type,
                            const HeadNormGradientArrays& arrays, float* scratch) {
  const int64_t run = kNormRuns.RowsOfRun(shape.rows);
  const int64_t runs = CeilDiv(shape.rows, run);
  WithHeadNormVariant(shape, type, HasEights(shape, arrays.dx, arrays.kept, arrays.gain),
                      LaunchHeadNormBackward{stream, shape, arrays, run, scratch});
  LaunchColumnSums<float>(stream, runs, shape.width, shape.width, runs, Accumulation::kAdd, scratch,
                          arrays.gain_gradient);
}

size_t DeviceHeadNormSharedBytes(int64_t width) {
  const int64_t teams = width <= kNarrowGroup ? kHeadNormWarps : 1;
  return (teams * width + 2 * kHeadNormWarps) * sizeof(float);
}

}  // namespace muster
