#ifndef MUSTER_COMMON_KERNELS_DEVICE_MATMUL_DEVICE_MATMUL_H_
#define MUSTER_COMMON_KERNELS_DEVICE_MATMUL_DEVICE_MATMUL_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device/device.h"
#include "common/kernels/device/matmul/matmul_problem.h"

namespace muster {

struct DeviceMatmulOptions {
  // Device memory that products of one stream share, aligned to 256 bytes; may be none. 32 MiB is
  // what cuBLASLt likes on sm_90.
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  // While measuring: how many of the library's proposals are timed for a product, and how often.
  int candidates = 8;
  int repetitions = 5;
};

// Which of the library's algorithms a product runs by.
struct MatmulChoice {
  std::string product;
  // Place among the library's proposals, best first by its own estimate; and how many there were.
  int chosen = 0;
  int proposals = 0;
  // Of one run; 0 where it was not measured.
  double microseconds = 0;
};

// Matrix products on a device, with f32 accumulation. On CUDA by cuBLASLt: no TF32 for f32, and no
// reduction in 16 bits. Emulated, by the CPU's products (common/kernels/gemm/gemm.h).
//
// An algorithm is chosen once for each product (extents, types, strides, alignment) and kept. While
// measuring (StartMeasuring … StopMeasuring, at warm-up) the library's first proposals are timed on
// the operands given, which costs a wait for the device and computes the product several times; in
// a product that accumulates, its result is then of no use. Otherwise a new product takes the
// library's first proposal, without a wait: a run that must give the same bits as another one, on
// the same machine and libraries, does not measure.
//
// Nothing is allocated on the device. Not thread-safe; one stream at a time, as the workspace is
// one.
class DeviceMatmul {
 public:
  virtual ~DeviceMatmul() = default;

  // Queues the product. InvalidArgument as CheckMatmul says; Unimplemented: the library has no
  // algorithm for it; otherwise the device's error.
  virtual absl::Status Run(DeviceStream& stream, const MatmulProblem& problem,
                           const MatmulOperands& operands) = 0;

  virtual void StartMeasuring() = 0;
  virtual void StopMeasuring() = 0;

  // Of the products that are kept, in the order in which they were first seen. Those that were not
  // measured may be forgotten when there are very many.
  virtual std::vector<MatmulChoice> Choices() const = 0;
};

// Defined by device_matmul_cuda.cc or device_matmul_emulated.cc, whichever is linked. Unavailable:
// no device, or the library does not start.
absl::StatusOr<std::unique_ptr<DeviceMatmul>> MakeDeviceMatmul(const DeviceMatmulOptions& options);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_MATMUL_DEVICE_MATMUL_H_
