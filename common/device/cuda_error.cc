#include "common/device/cuda_error.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/device/device_fault.h"

namespace muster {
namespace {

// Of the calling thread's device.
std::string ComputeCapability() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
    (void)cudaGetLastError();
    return "unknown";
  }
  return absl::StrCat(major, ".", minor);
}

}  // namespace

absl::Status CudaError(cudaError_t result, absl::string_view what) {
  if (result == cudaSuccess) return absl::OkStatus();
  // Told here, so not again to whoever asks CUDA for its last error.
  (void)cudaGetLastError();
  const std::string message = absl::StrCat(what, ": CUDA says ", cudaGetErrorName(result), ", ",
                                           cudaGetErrorString(result));
  switch (result) {
    case cudaErrorMemoryAllocation:
      return absl::ResourceExhaustedError(message);
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      return absl::UnavailableError(message);
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidKernelImage:
    case cudaErrorInvalidPtx:
    case cudaErrorJitCompilationDisabled:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return absl::FailedPreconditionError(absl::StrCat(
          message, "; the GPU has compute capability ", ComputeCapability(),
          ", and this program code for ", MUSTER_CUDA_CODE,
          "; update the driver, or build the program for this GPU (third_party/cuda/cuda.bzl)"));
    // Ours to mend: another device would say the same.
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureWrongThread:
    case cudaErrorCapturedEvent:
    case cudaErrorIllegalState:
      return absl::InternalError(message);
    // Ours too, most likely, but what is left of the context is of no use.
    case cudaErrorAssert:
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorMisalignedAddress:
      return DeviceFaultError(absl::StrCat(
          message,
          "; most likely a kernel of this program is wrong, not the GPU: please report it"));
    default:
      return DeviceFaultError(message);
  }
}

}  // namespace muster
