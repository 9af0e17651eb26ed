#ifndef MUSTER_COMMON_KERNELS_DEVICE_SIMT_SIMT_H_
#define MUSTER_COMMON_KERNELS_DEVICE_SIMT_SIMT_H_

#include <cstdint>

#include "common/device/stream_access.h"
#include "common/tensor/dtype.h"

// What a kernel is written in: one source, compiled by nvcc for GPUs and by the C++ compiler for
// the emulation of emulated_grid.h. A kernel is a struct whose members are its arguments:
//
//   struct FooKernel {
//     static constexpr int kThreads = 256;   // of a block; a multiple of 32
//     static constexpr int kMinBlocks = 4;   // per multiprocessor, for the compiler's registers
//     static constexpr const char* kName = "foo";
//     …
//     MUSTER_DEVICE void Run() const;        // by every thread
//   };
//   Launch(stream, {.x = blocks}, shared_bytes, FooKernel{…});
//
// Both compilers see:
//   ThreadIndex() LaneIndex() WarpIndex(); BlockX/Y/Z() GridX()
//   SharedMemory()      the block's dynamic shared memory, aligned to 128 bytes
//   SyncBlock() SyncWarp()
//   ShuffleXor(v, mask) Shuffle(v, lane)   by all lanes of a warp
//   CopyAsync16(shared, global, valid) CommitCopies() WaitCopies<left>()   cp.async; not valid:
//                       zeros, and `global` is not read
//   LoadMatrices(r, row) LoadMatricesTransposed(r, row)   ldmatrix.x4: four 8 × 8 matrices of 16
//                       bits; lane i names row i % 8 of matrix i / 8
//   MultiplyAdd<T>(c, a, b)   mma.m16n8k16: c += a · b, fragments as the PTX ISA lays them out
//   Exp2(x) Exp(x) Log(x) Rsqrt(x) Sqrt(x), Exp2 to about 2 ulp, the rest as the C library's float
//   Bf16, F16: storage; Widen(x), Narrow<T>(x), to nearest even
namespace muster {

struct LaunchGrid {
  int64_t x = 1;
  int y = 1;
  int z = 1;
};

// 16 bits that mean a number; named apart from the host's types, which nvcc need not know.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

}  // namespace muster

#if defined(__CUDACC__)
#include "common/kernels/device/simt/simt_cuda.h"
#else
#include "common/kernels/device/simt/simt_emulated.h"
#endif

namespace muster {

// N elements that are loaded and stored in one instruction, if they are 16 bytes or a smaller power
// of two.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

template <int N, typename T>
MUSTER_DEVICE Pack<T, N> LoadPack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

template <int N, typename T>
MUSTER_DEVICE void StorePack(const Pack<T, N>& value, T* to) {
  *reinterpret_cast<Pack<T, N>*>(to) = value;
}

// x[0 … N) as f32, and back.
template <int N, typename T>
MUSTER_DEVICE void LoadFloats(const T* from, float (&x)[N]) {
  constexpr int kStep = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
#pragma unroll
  for (int i = 0; i < N; i += kStep) {
    const Pack<T, kStep> pack = LoadPack<kStep>(from + i);
#pragma unroll
    for (int j = 0; j < kStep; ++j) x[i + j] = Widen(pack.v[j]);
  }
}

template <int N, typename T>
MUSTER_DEVICE void StoreFloats(const float (&x)[N], T* to) {
  constexpr int kStep = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
#pragma unroll
  for (int i = 0; i < N; i += kStep) {
    Pack<T, kStep> pack;
#pragma unroll
    for (int j = 0; j < kStep; ++j) pack.v[j] = Narrow<T>(x[i + j]);
    StorePack<kStep>(pack, to + i);
  }
}

template <typename T>
MUSTER_DEVICE T WarpSum(T x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x += ShuffleXor(x, mask);
  return x;
}

MUSTER_DEVICE float Max(float a, float b) { return a > b ? a : b; }
// Returns 0 for -Infinity(), otherwise x: what may be subtracted from -Infinity().
MUSTER_DEVICE float NumberOr0(float x) { return x == -Infinity() ? 0.0f : x; }
MUSTER_DEVICE int64_t Min64(int64_t a, int64_t b) { return a < b ? a : b; }
MUSTER_DEVICE int64_t Max64(int64_t a, int64_t b) { return a > b ? a : b; }

// Sums x and y over the block of kThreads, on every thread, in one order; `shared` has room for 2 ·
// kThreads / 32 floats and may be used again at once.
template <int kThreads>
MUSTER_DEVICE void BlockSum2(float* shared, float& x, float& y) {
  constexpr int kWarps = kThreads / 32;
  x = WarpSum(x);
  y = WarpSum(y);
  if constexpr (kWarps > 1) {
    if (LaneIndex() == 0) {
      shared[WarpIndex()] = x;
      shared[kWarps + WarpIndex()] = y;
    }
    SyncBlock();
    x = 0;
    y = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
      x += shared[i];
      y += shared[kWarps + i];
    }
    SyncBlock();
  }
}

template <int kThreads>
MUSTER_DEVICE float BlockSum(float* shared, float x) {
  float unused = 0;
  BlockSum2<kThreads>(shared, x, unused);
  return x;
}

// Philox4x32-10, as common/base/philox.h.
MUSTER_DEVICE void PhiloxBlock(uint64_t key, uint64_t low, uint64_t high, uint32_t (&x)[4]) {
  x[0] = static_cast<uint32_t>(low);
  x[1] = static_cast<uint32_t>(low >> 32);
  x[2] = static_cast<uint32_t>(high);
  x[3] = static_cast<uint32_t>(high >> 32);
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * x[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * x[2];
    x[0] = static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0;
    x[1] = static_cast<uint32_t>(product1);
    x[2] = static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1;
    x[3] = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

// Calls f(T{}) with the storage type of a DType that is f32, bf16 or f16. Of the host.
template <typename F>
void WithStorageType(DType type, const F& f) {
  switch (type) {
    case DType::kBf16:
      return f(Bf16{});
    case DType::kF16:
      return f(F16{});
    default:
      return f(float{});
  }
}

template <typename T>
bool IsAligned16(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_SIMT_SIMT_H_
