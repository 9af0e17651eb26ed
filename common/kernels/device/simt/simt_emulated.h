#ifndef MUSTER_COMMON_KERNELS_DEVICE_SIMT_SIMT_EMULATED_H_
#define MUSTER_COMMON_KERNELS_DEVICE_SIMT_SIMT_EMULATED_H_

// simt.h on the CPU; included by it alone. Everything has internal linkage or is a template of
// internal types, so that no program can take an emulated function for one of CUDA's.

#include <cmath>
#include <cstring>
#include <limits>

#include "common/kernels/device/simt/emulated_grid.h"
#include "common/tensor/float16.h"

#define MUSTER_DEVICE inline

namespace muster {

inline int ThreadIndex() { return CurrentEmulatedThread().thread; }
inline int LaneIndex() { return ThreadIndex() % kWarpLanes; }
inline int WarpIndex() { return ThreadIndex() / kWarpLanes; }
inline int BlockX() { return CurrentEmulatedThread().block_x; }
inline int BlockY() { return CurrentEmulatedThread().block_y; }
inline int BlockZ() { return CurrentEmulatedThread().block_z; }
inline int GridX() { return CurrentEmulatedThread().grid_x; }
inline char* SharedMemory() { return CurrentEmulatedThread().shared; }

inline void SyncBlock() { CurrentEmulatedThread().SyncBlock(); }
inline void SyncWarp() { CurrentEmulatedThread().Exchange({}, nullptr); }

template <typename T>
T Shuffle(T value, int lane) {
  WarpSlot slot;
  std::memcpy(slot.words, &value, sizeof(T));
  const WarpSlot* slots = CurrentEmulatedThread().Exchange(slot, nullptr);
  std::memcpy(&value, slots[lane].words, sizeof(T));
  return value;
}
template <typename T>
T ShuffleXor(T value, int mask) {
  return Shuffle(value, LaneIndex() ^ mask);
}

inline void CopyAsync16(void* shared, const void* global, bool valid) {
  CurrentEmulatedThread().CopyLater([=] {
    if (valid) {
      std::memcpy(shared, global, 16);
    } else {
      std::memset(shared, 0, 16);
    }
  });
}
inline void CommitCopies() { CurrentEmulatedThread().CommitCopies(); }
template <int kLeft>
void WaitCopies() {
  CurrentEmulatedThread().WaitForCopies(kLeft);
}

// ldmatrix: matrix m's rows come from lanes 8m … 8m + 7; lane l gets of each matrix elements (l /
// 4, 2 (l % 4)) and the next, or those of its transpose.
template <bool kTransposed>
void LoadMatricesOperation(WarpSlot* lanes) {
  uint16_t matrix[4][8][8];
  for (int l = 0; l < kWarpLanes; ++l) {
    const void* row;
    std::memcpy(&row, lanes[l].words, sizeof(row));
    std::memcpy(matrix[l / 8][l % 8], row, 16);
  }
  for (int l = 0; l < kWarpLanes; ++l) {
    for (int m = 0; m < 4; ++m) {
      const int r = l / 4, c = l % 4 * 2;
      const uint32_t low = kTransposed ? matrix[m][c][r] : matrix[m][r][c];
      const uint32_t high = kTransposed ? matrix[m][c + 1][r] : matrix[m][r][c + 1];
      lanes[l].words[m] = low | high << 16;
    }
  }
}
template <bool kTransposed>
void LoadMatricesAny(uint32_t (&r)[4], const void* row) {
  WarpSlot slot;
  std::memcpy(slot.words, &row, sizeof(row));
  EmulatedThread& thread = CurrentEmulatedThread();
  const WarpSlot* slots = thread.Exchange(slot, LoadMatricesOperation<kTransposed>);
  std::memcpy(r, slots[LaneIndex()].words, sizeof(r));
}
inline void LoadMatrices(uint32_t (&r)[4], const void* row) { LoadMatricesAny<false>(r, row); }
inline void LoadMatricesTransposed(uint32_t (&r)[4], const void* row) {
  LoadMatricesAny<true>(r, row);
}

inline float Widen(float x) { return x; }
inline float Widen(Bf16 x) { return F32OfBf16(x.bits); }
inline float Widen(F16 x) { return F32OfF16(x.bits); }
template <typename T>
T Narrow(float x);
template <>
inline float Narrow<float>(float x) {
  return x;
}
template <>
inline Bf16 Narrow<Bf16>(float x) {
  return {Bf16OfF32(x)};
}
template <>
inline F16 Narrow<F16>(float x) {
  return {F16OfF32(x)};
}
template <typename T>
uint32_t PackPair(float low, float high) {
  return Narrow<T>(low).bits | uint32_t{Narrow<T>(high).bits} << 16;
}

// mma.m16n8k16 with g = lane / 4 and t = lane % 4. Words of a: (g, 2t), (g + 8, 2t), (g, 2t + 8),
// (g + 8, 2t + 8), each with the next column; of b: rows 2t and 2t + 1 of column g, then 8 rows
// below; of c: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
template <typename T>
void MultiplyAddOperation(WarpSlot* lanes) {
  float a[16][16], b[16][8];
  const auto number = [](uint32_t word, int half) {
    return Widen(T{static_cast<uint16_t>(word >> (16 * half))});
  };
  for (int l = 0; l < kWarpLanes; ++l) {
    const int g = l / 4, t = l % 4;
    const uint32_t* words = lanes[l].words;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        a[g + i % 2 * 8][2 * t + i / 2 * 8 + half] = number(words[i], half);
      }
      for (int i = 0; i < 2; ++i) b[2 * t + i * 8 + half][g] = number(words[4 + i], half);
    }
  }
  for (int l = 0; l < kWarpLanes; ++l) {
    const int g = l / 4, t = l % 4;
    float c[4];
    std::memcpy(c, lanes[l].words + 6, sizeof(c));
    for (int i = 0; i < 4; ++i) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[g + i / 2 * 8][k] * b[k][2 * t + i % 2];
      c[i] += sum;
    }
    std::memcpy(lanes[l].words, c, sizeof(c));
  }
}
template <typename T>
void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  WarpSlot slot;
  std::memcpy(slot.words, a, sizeof(a));
  std::memcpy(slot.words + 4, b, sizeof(b));
  std::memcpy(slot.words + 6, c, sizeof(c));
  const WarpSlot* slots = CurrentEmulatedThread().Exchange(slot, MultiplyAddOperation<T>);
  std::memcpy(c, slots[LaneIndex()].words, sizeof(c));
}

inline float Exp2(float x) { return std::exp2(x); }
inline float Exp(float x) { return std::exp(x); }
inline float Log(float x) { return std::log(x); }
inline float Sqrt(float x) { return std::sqrt(x); }
inline float Rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline double LogDouble(double x) { return std::log(x); }
inline double SqrtDouble(double x) { return std::sqrt(x); }
inline float Infinity() { return std::numeric_limits<float>::infinity(); }

template <typename Kernel>
void Launch(DeviceStream& stream, const LaunchGrid& grid, size_t shared_bytes,
            const Kernel& kernel) {
  static_assert(Kernel::kMinBlocks * Kernel::kThreads <= 2048, "more than a multiprocessor holds");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || !AcceptsWork(stream)) return;
  const EmulatedGrid emulated = {.x = static_cast<int>(grid.x),
                                 .y = grid.y,
                                 .z = grid.z,
                                 .threads = Kernel::kThreads,
                                 .shared_bytes = shared_bytes,
                                 .kernel = Kernel::kName};
  QueueEmulated(stream,
                [emulated, kernel] { RunEmulatedGrid(emulated, [&kernel] { kernel.Run(); }); });
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_SIMT_SIMT_EMULATED_H_
