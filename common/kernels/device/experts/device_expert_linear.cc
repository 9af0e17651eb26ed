// Products of experts' rows, a tile of the result by each block.
//
// A tile of rows (forward, and the gradient of the input) lies within one expert: R rows make at
// most R / kSide + E of them. That many blocks are launched, since the host does not know the
// experts' numbers of rows; each finds its tile in the offsets, and those beyond the last do
// nothing. For weights, a block has a tile of one expert's matrix, whose depth is the expert's
// rows.
//
// Two kinds of blocks: by mma in 16 bits, where rows are whole 16 bytes, with a copy of the next
// part of the depth under way while one is multiplied; or by f32 instructions, for every shape.
#include "common/kernels/device/experts/device_expert_linear.h"

#include <type_traits>

#include "common/kernels/device/fma_tiles.h"
#include "common/kernels/device/tensor_tiles.h"

namespace muster {
namespace {

// A factor is stored as the product takes it, or transposed.
enum class Stored { kPlain, kTransposed };

// Rows of one expert.
struct RowTile {
  int64_t expert;  // E: none is left.
  int64_t begin;   // The tile's first row.
  int64_t end;     // One past the expert's last.
};

// Returns the tile of so many rows with this index among all experts', on every lane of the warp.
MUSTER_DEVICE RowTile FindTile(const int32_t* offsets, int64_t experts, int index, int rows) {
  for (int64_t first = 0; first < experts; first += 32) {
    const int64_t mine = Min64(first + LaneIndex(), experts);
    const int begin = offsets[mine];
    const int end = offsets[Min64(mine + 1, experts)];
    const int tiles = (end - begin + rows - 1) / rows;
    int sum = tiles;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int from = LaneIndex() - distance;
      const int other = Shuffle(sum, from < 0 ? LaneIndex() : from);
      if (from >= 0) sum += other;
    }
    // Experts whose tiles all come before this one.
    const int passed = WarpSum(sum <= index ? 1 : 0);
    if (passed < 32) {
      const int tile = index - Shuffle(sum - tiles, passed);
      return {first + passed, Shuffle(begin, passed) + int64_t{tile} * rows, Shuffle(end, passed)};
    }
    index -= Shuffle(sum, 31);
  }
  return {experts, 0, 0};
}

// ---- f32 instructions.

constexpr int kFmaSide = 64;
using FmaSums = RowSums<kFmaSide, kFmaSide>;
constexpr size_t kFmaShared = 2 * kFloatTileBytes<kFmaSide, kFmaSide>;

// sums += the product of rows [row0, row_end) of the left factor and columns [column0, …) of the
// right one over the depth [begin, end). Strides are those of stored rows; `left_rows` and
// `right_columns` bound the factors.
template <Stored kLeft, Stored kRight, typename T>
MUSTER_DEVICE void AddFmaProduct(const T* left, int64_t left_stride, int64_t row0,
                                 int64_t left_rows, const T* right, int64_t right_stride,
                                 int64_t column0, int64_t right_columns, int64_t begin, int64_t end,
                                 FmaSums& sums) {
  float* const square = reinterpret_cast<float*>(SharedMemory());
  float* const tile = square + kFmaSide * kFloatPitch<kFmaSide>;
  for (int64_t k = begin; k < end; k += kFmaSide) {
    if constexpr (kLeft == Stored::kPlain) {
      ReadTile<kFmaSide, kFmaSide>(square, left + k, left_stride, row0, left_rows, end - k);
    } else {
      ReadTransposedTile<kFmaSide, kFmaSide>(square, left + row0, left_stride, k, end,
                                             left_rows - row0);
    }
    if constexpr (kRight == Stored::kPlain) {
      ReadTile<kFmaSide, kFmaSide>(tile, right + column0, right_stride, k, end,
                                   right_columns - column0);
    } else {
      ReadTransposedTile<kFmaSide, kFmaSide>(tile, right + k, right_stride, column0, right_columns,
                                             end - k);
    }
    SyncBlock();
    sums.AddProduct(square, tile);
    SyncBlock();
  }
}

template <Stored kWeight, typename T>
struct FmaRowsKernel {
  static constexpr int kThreads = kFmaThreads;
  static constexpr int kMinBlocks = 2;
  static constexpr const char* kName = "experts' products";
  static constexpr int kSide = kFmaSide;
  static constexpr size_t kShared = kFmaShared;

  int64_t experts;
  int64_t depth;
  int64_t columns;
  const int32_t* offsets;
  const T* x;
  const T* weight;
  T* y;

  MUSTER_DEVICE void Run() const {
    const RowTile tile = FindTile(offsets, experts, BlockX(), kSide);
    if (tile.expert == experts) return;
    const int64_t column0 = static_cast<int64_t>(BlockY()) * kSide;
    FmaSums sums;
    sums.Clear();
    AddFmaProduct<Stored::kPlain, kWeight>(
        x, depth, tile.begin, tile.end, weight + tile.expert * depth * columns,
        kWeight == Stored::kPlain ? columns : depth, column0, columns, 0, depth, sums);
    sums.Write(y + column0, columns, tile.begin, tile.end, columns - column0);
  }
};

template <typename T>
struct FmaWeightsKernel {
  static constexpr int kThreads = kFmaThreads;
  static constexpr int kMinBlocks = 2;
  static constexpr const char* kName = "experts' gradients";
  static constexpr int kSide = kFmaSide;
  static constexpr size_t kShared = kFmaShared;

  int64_t out;
  int64_t in;
  const int32_t* offsets;
  Accumulation accumulation;
  const T* dy;
  const T* x;
  float* weight;

  MUSTER_DEVICE void Run() const {
    const int64_t row0 = static_cast<int64_t>(BlockX()) * kSide;
    const int64_t column0 = static_cast<int64_t>(BlockY()) * kSide;
    const int64_t begin = offsets[BlockZ()], end = offsets[BlockZ() + 1];
    if (begin == end && accumulation == Accumulation::kAdd) return;
    FmaSums sums;
    sums.Clear();
    AddFmaProduct<Stored::kTransposed, Stored::kPlain>(dy, out, row0, out, x, in, column0, in,
                                                       begin, end, sums);
    float* const to = weight + BlockZ() * out * in + column0;
    if (accumulation == Accumulation::kAdd) {
      sums.AddTo(to, in, row0, out, in - column0);
    } else {
      sums.Write(to, in, row0, out, in - column0);
    }
  }
};

// ---- Tensor cores.

// Each warp of a square of kSide rows and columns has 16-row strips of 64 columns: kSide / 64
// strips, 64 rows apart.
template <int kSide>
struct TensorSquare {
  static constexpr int kStrips = kSide / 64;
  static constexpr int kThreads = 128 * kStrips;
  static constexpr int kTiles = 8;
  // The depth of a step; a stage holds such a part of both factors.
  static constexpr int kDepth = 32;
  static constexpr size_t kFactorBytes = kTileBytes<kSide, kDepth> > kTileBytes<kDepth, kSide>
                                             ? kTileBytes<kSide, kDepth>
                                             : kTileBytes<kDepth, kSide>;
  static constexpr size_t kShared = 4 * kFactorBytes;

  Accumulator<kTiles> sums[kStrips];

  MUSTER_DEVICE static int Row(int strip) { return strip * 64 + WarpIndex() % 4 * 16; }
  MUSTER_DEVICE static int Column() { return WarpIndex() / 4 * 64; }

  // Does what AddFmaProduct does.
  template <Stored kLeft, Stored kRight, typename T>
  MUSTER_DEVICE void Product(const T* left, int64_t left_stride, int64_t row0, int64_t left_rows,
                             const T* right, int64_t right_stride, int64_t column0,
                             int64_t right_columns, int64_t begin, int64_t end) {
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) sums[strip].Clear();
    const auto copy = [&](int stage, int64_t k) {
      T* const left_tile = Tile<T>(stage, 0);
      T* const right_tile = Tile<T>(stage, 1);
      if constexpr (kLeft == Stored::kPlain) {
        CopyTile<kSide, kDepth, kThreads>(left_tile, left + k, left_stride, row0, left_rows,
                                          Bounded(end - k));
      } else {
        CopyTile<kDepth, kSide, kThreads>(left_tile, left + row0, left_stride, k, end,
                                          Bounded(left_rows - row0));
      }
      if constexpr (kRight == Stored::kPlain) {
        CopyTile<kDepth, kSide, kThreads>(right_tile, right + column0, right_stride, k, end,
                                          Bounded(right_columns - column0));
      } else {
        CopyTile<kSide, kDepth, kThreads>(right_tile, right + k, right_stride, column0,
                                          right_columns, Bounded(end - k));
      }
    };
    if (begin < end) copy(0, begin);
    CommitCopies();
    int stage = 0;
    for (int64_t k = begin; k < end; k += kDepth, stage ^= 1) {
      if (k + kDepth < end) copy(stage ^ 1, k + kDepth);
      CommitCopies();
      WaitCopies<1>();
      SyncBlock();
      Step<kLeft, kRight>(Tile<T>(stage, 0), Tile<T>(stage, 1));
      SyncBlock();
    }
  }

  // Writes the square to rows [row0, rows) and columns [column0, columns) of `to`, rounded. By way
  // of shared memory, which nobody else uses any more.
  template <typename T>
  MUSTER_DEVICE void Write(T* to, int64_t stride, int64_t row0, int64_t rows, int64_t column0,
                           int64_t columns) const {
    static_assert(kThreads / 32 * kTileBytes<16, 64> <= kShared);
    T* const tile = reinterpret_cast<T*>(SharedMemory()) + WarpIndex() * 16 * kPitch<64>;
    const float ones[2] = {1, 1};
    const int64_t column = column0 + Column();
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
      WriteRows<64>(sums[strip], ones, tile, 0, to + column, stride, row0 + Row(strip), rows, 0,
                    Bounded(columns - column));
      SyncWarp();
    }
  }

  // The same in f32, or added to it.
  MUSTER_DEVICE void Write(Accumulation accumulation, float* to, int64_t stride, int64_t row0,
                           int64_t rows, int64_t column0, int64_t columns) const {
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int64_t column = column0 + Column() + n * 8 + LaneIndex() % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int64_t row = row0 + Row(strip) + LaneIndex() / 4 + half * 8;
          if (row >= rows || column >= columns) continue;
          float* const place = to + row * stride + column;
          float values[2] = {sums[strip].v[n][2 * half], sums[strip].v[n][2 * half + 1]};
          if (accumulation == Accumulation::kAdd) {
            float before[2];
            LoadFloats<2>(place, before);
            values[0] += before[0];
            values[1] += before[1];
          }
          StoreFloats<2>(values, place);
        }
      }
    }
  }

 private:
  template <typename T>
  MUSTER_DEVICE static T* Tile(int stage, int factor) {
    return reinterpret_cast<T*>(SharedMemory() + (2 * stage + factor) * kFactorBytes);
  }
  // Returns what is left of an extent, as far as a tile may reach.
  MUSTER_DEVICE static int Bounded(int64_t left) {
    return static_cast<int>(left < 0 ? 0 : Min64(left, kSide));
  }

  template <Stored kLeft, Stored kRight, typename T>
  MUSTER_DEVICE void Step(const T* left, const T* right) {
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      uint32_t a[kStrips][4];
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        if constexpr (kLeft == Stored::kPlain) {
          LoadLeft<kDepth>(left, Row(strip), k, a[strip]);
        } else {
          LoadLeftOfColumns<kSide>(left, Row(strip), k, a[strip]);
        }
      }
#pragma unroll
      for (int n = 0; n < kTiles; n += 2) {
        uint32_t b[2][2];
        if constexpr (kRight == Stored::kPlain) {
          LoadRight<kSide>(right, k, Column() + n * 8, b);
        } else {
          LoadRightOfRows<kDepth>(right, Column() + n * 8, k, b);
        }
#pragma unroll
        for (int strip = 0; strip < kStrips; ++strip) {
          MultiplyAdd<T>(sums[strip].v[n], a[strip], b[0]);
          MultiplyAdd<T>(sums[strip].v[n + 1], a[strip], b[1]);
        }
      }
    }
  }
};

template <int kTileSide, Stored kWeight, typename T>
struct TensorRowsKernel {
  using Square = TensorSquare<kTileSide>;
  static constexpr int kThreads = Square::kThreads;
  static constexpr int kMinBlocks = 2;
  static constexpr const char* kName = "experts' products";
  static constexpr int kSide = kTileSide;
  static constexpr size_t kShared = Square::kShared;

  int64_t experts;
  int64_t depth;
  int64_t columns;
  const int32_t* offsets;
  const T* x;
  const T* weight;
  T* y;

  MUSTER_DEVICE void Run() const {
    const RowTile tile = FindTile(offsets, experts, BlockX(), kSide);
    if (tile.expert == experts) return;
    const int64_t column0 = static_cast<int64_t>(BlockY()) * kSide;
    Square square;
    square.template Product<Stored::kPlain, kWeight>(
        x, depth, tile.begin, tile.end, weight + tile.expert * depth * columns,
        kWeight == Stored::kPlain ? columns : depth, column0, columns, 0, depth);
    square.Write(y, columns, tile.begin, tile.end, column0, columns);
  }
};

template <int kTileSide, typename T>
struct TensorWeightsKernel {
  using Square = TensorSquare<kTileSide>;
  static constexpr int kThreads = Square::kThreads;
  static constexpr int kMinBlocks = 2;
  static constexpr const char* kName = "experts' gradients";
  static constexpr int kSide = kTileSide;
  static constexpr size_t kShared = Square::kShared;

  int64_t out;
  int64_t in;
  const int32_t* offsets;
  Accumulation accumulation;
  const T* dy;
  const T* x;
  float* weight;

  MUSTER_DEVICE void Run() const {
    const int64_t row0 = static_cast<int64_t>(BlockX()) * kSide;
    const int64_t column0 = static_cast<int64_t>(BlockY()) * kSide;
    const int64_t begin = offsets[BlockZ()], end = offsets[BlockZ() + 1];
    if (begin == end && accumulation == Accumulation::kAdd) return;
    Square square;
    square.template Product<Stored::kTransposed, Stored::kPlain>(dy, out, row0, out, x, in, column0,
                                                                 in, begin, end);
    square.Write(accumulation, weight + BlockZ() * out * in, in, row0, out, column0, in);
  }
};

// Squares of 128 where they are filled: half the reading of each factor.
template <typename F>
void WithTensorSide(int64_t rows, int64_t columns, const F& f) {
  if (rows >= 128 && columns >= 128) {
    f(std::integral_constant<int, 128>());
  } else {
    f(std::integral_constant<int, 64>());
  }
}

bool IsPacked(const ExpertLinear& linear) { return linear.in % 8 == 0 && linear.out % 8 == 0; }

// y [R, columns] = x [R, depth] · weight, which is stored [depth, columns] or transposed.
template <Stored kWeight>
void LaunchRows(DeviceStream& stream, const ExpertLinear& linear, int64_t depth, int64_t columns,
                const int32_t* offsets, const void* x, const void* weight, void* y) {
  if (linear.rows == 0) return;
  const auto launch = [&](const auto& kernel) {
    const int64_t tiles = CeilDiv(linear.rows, kernel.kSide) +
                          (linear.experts < linear.rows ? linear.experts : linear.rows);
    Launch(stream, {.x = tiles, .y = static_cast<int>(CeilDiv(columns, kernel.kSide))},
           kernel.kShared, kernel);
  };
  WithStorageType(linear.type, [&](auto zero) {
    using T = decltype(zero);
    const T* const typed_x = static_cast<const T*>(x);
    const T* const typed_weight = static_cast<const T*>(weight);
    if constexpr (sizeof(T) == 2) {
      if (IsPacked(linear) && IsAligned16(x) && IsAligned16(weight) && IsAligned16(y)) {
        WithTensorSide(linear.rows / linear.experts, columns, [&](auto side) {
          launch(TensorRowsKernel<side, kWeight, T>{linear.experts, depth, columns, offsets,
                                                    typed_x, typed_weight, static_cast<T*>(y)});
        });
        return;
      }
    }
    launch(FmaRowsKernel<kWeight, T>{linear.experts, depth, columns, offsets, typed_x, typed_weight,
                                     static_cast<T*>(y)});
  });
}

}  // namespace

void DeviceExpertLinear(DeviceStream& stream, const ExpertLinear& linear, const int32_t* offsets,
                        const void* x, const void* weight, void* y) {
  LaunchRows<Stored::kTransposed>(stream, linear, linear.in, linear.out, offsets, x, weight, y);
}

void DeviceExpertLinearBackwardInput(DeviceStream& stream, const ExpertLinear& linear,
                                     const int32_t* offsets, const void* dy, const void* weight,
                                     void* dx) {
  LaunchRows<Stored::kPlain>(stream, linear, linear.out, linear.in, offsets, dy, weight, dx);
}

void DeviceExpertLinearBackwardWeights(DeviceStream& stream, const ExpertLinear& linear,
                                       const int32_t* offsets,
                                       const ExpertLinearGradientArrays& arrays) {
  const auto launch = [&](const auto& kernel) {
    Launch(stream,
           {.x = CeilDiv(linear.out, kernel.kSide),
            .y = static_cast<int>(CeilDiv(linear.in, kernel.kSide)),
            .z = static_cast<int>(linear.experts)},
           kernel.kShared, kernel);
  };
  WithStorageType(linear.type, [&](auto zero) {
    using T = decltype(zero);
    const T* const dy = static_cast<const T*>(arrays.dy);
    const T* const x = static_cast<const T*>(arrays.x);
    if constexpr (sizeof(T) == 2) {
      if (IsPacked(linear) && IsAligned16(dy) && IsAligned16(x) && IsAligned16(arrays.weight)) {
        WithTensorSide(linear.out, linear.in, [&](auto side) {
          launch(TensorWeightsKernel<side, T>{linear.out, linear.in, offsets, arrays.accumulation,
                                              dy, x, arrays.weight});
        });
        return;
      }
    }
    launch(FmaWeightsKernel<T>{linear.out, linear.in, offsets, arrays.accumulation, dy, x,
                               arrays.weight});
  });
}

}  // namespace muster
