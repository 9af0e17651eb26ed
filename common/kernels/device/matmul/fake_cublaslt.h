#ifndef MUSTER_COMMON_KERNELS_DEVICE_MATMUL_FAKE_CUBLASLT_H_
#define MUSTER_COMMON_KERNELS_DEVICE_MATMUL_FAKE_CUBLASLT_H_

namespace muster {

struct FakeCublasLtCounts {
  // Alive now.
  int descriptors = 0;
  // So far.
  int heuristics = 0;
  int runs = 0;
};
FakeCublasLtCounts GetFakeCublasLtCounts();

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_MATMUL_FAKE_CUBLASLT_H_
