#ifndef MUSTER_COMMON_KERNELS_DEVICE_SIMT_SIMT_CUDA_H_
#define MUSTER_COMMON_KERNELS_DEVICE_SIMT_SIMT_CUDA_H_

// simt.h by CUDA; included by it alone. PTX is of sm_80.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define MUSTER_DEVICE __device__ __forceinline__

namespace muster {

MUSTER_DEVICE int ThreadIndex() { return threadIdx.x; }
MUSTER_DEVICE int LaneIndex() { return threadIdx.x % 32; }
MUSTER_DEVICE int WarpIndex() { return threadIdx.x / 32; }
MUSTER_DEVICE int BlockX() { return blockIdx.x; }
MUSTER_DEVICE int BlockY() { return blockIdx.y; }
MUSTER_DEVICE int BlockZ() { return blockIdx.z; }
MUSTER_DEVICE int GridX() { return gridDim.x; }

MUSTER_DEVICE char* SharedMemory() {
  extern __shared__ __align__(128) char muster_shared_memory[];
  return muster_shared_memory;
}

MUSTER_DEVICE void SyncBlock() { __syncthreads(); }
MUSTER_DEVICE void SyncWarp() { __syncwarp(); }

template <typename T>
MUSTER_DEVICE T ShuffleXor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <typename T>
MUSTER_DEVICE T Shuffle(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

MUSTER_DEVICE uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

MUSTER_DEVICE void CopyAsync16(void* shared, const void* global, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(SharedAddress(shared)),
               "l"(global), "r"(bytes)
               : "memory");
}
MUSTER_DEVICE void CommitCopies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int kLeft>
MUSTER_DEVICE void WaitCopies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLeft) : "memory");
}

MUSTER_DEVICE void LoadMatrices(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row))
               : "memory");
}
MUSTER_DEVICE void LoadMatricesTransposed(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row))
               : "memory");
}

template <typename T>
MUSTER_DEVICE void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
template <>
MUSTER_DEVICE void MultiplyAdd<Bf16>(float (&c)[4], const uint32_t (&a)[4],
                                     const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
MUSTER_DEVICE void MultiplyAdd<F16>(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

MUSTER_DEVICE float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
MUSTER_DEVICE float Exp(float x) { return expf(x); }
MUSTER_DEVICE float Log(float x) { return logf(x); }
MUSTER_DEVICE float Sqrt(float x) { return sqrtf(x); }
MUSTER_DEVICE float Rsqrt(float x) { return 1.0f / sqrtf(x); }
MUSTER_DEVICE double LogDouble(double x) { return log(x); }
MUSTER_DEVICE double SqrtDouble(double x) { return sqrt(x); }
MUSTER_DEVICE float Infinity() { return __int_as_float(0x7f800000); }

MUSTER_DEVICE float Widen(float x) { return x; }
MUSTER_DEVICE float Widen(Bf16 x) { return __uint_as_float(uint32_t{x.bits} << 16); }
MUSTER_DEVICE float Widen(F16 x) { return __half2float(__ushort_as_half(x.bits)); }
template <typename T>
MUSTER_DEVICE T Narrow(float x);
template <>
MUSTER_DEVICE float Narrow<float>(float x) {
  return x;
}
template <>
MUSTER_DEVICE Bf16 Narrow<Bf16>(float x) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}
template <>
MUSTER_DEVICE F16 Narrow<F16>(float x) {
  return {__half_as_ushort(__float2half_rn(x))};
}

// Two numbers in a word, the first in its lower half: what fragments are made of.
template <typename T>
MUSTER_DEVICE uint32_t PackPair(float low, float high);
template <>
MUSTER_DEVICE uint32_t PackPair<Bf16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
template <>
MUSTER_DEVICE uint32_t PackPair<F16>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kMinBlocks)
    RunKernel(const __grid_constant__ Kernel kernel) {
  kernel.Run();
}

template <typename Kernel>
void Launch(DeviceStream& stream, const LaunchGrid& grid, size_t shared_bytes,
            const Kernel& kernel) {
  // More than this is given on request only.
  constexpr size_t kPlainShared = 48 << 10;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || !AcceptsWork(stream)) return;
  if (shared_bytes > kPlainShared) {
    const cudaError_t result =
        cudaFuncSetAttribute(RunKernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes));
    if (result != cudaSuccess) {
      NoteLaunch(stream, result, Kernel::kName);
      return;
    }
  }
  // The call's own result: cudaGetLastError would blame this launch for what failed before it.
  void* arguments[] = {const_cast<Kernel*>(&kernel)};
  NoteLaunch(
      stream,
      cudaLaunchKernel(RunKernel<Kernel>, dim3(static_cast<unsigned>(grid.x), grid.y, grid.z),
                       dim3(Kernel::kThreads), arguments, shared_bytes,
                       static_cast<cudaStream_t>(NativeStream(stream))),
      Kernel::kName);
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_SIMT_SIMT_CUDA_H_
