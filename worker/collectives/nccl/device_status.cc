#include "worker/collectives/nccl/device_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/device/device_fault.h"

namespace muster {

absl::Status CudaStatus(cudaError_t result, absl::string_view what) {
  if (result == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": CUDA says ", cudaGetErrorName(result), ", ",
                                           cudaGetErrorString(result));
  switch (result) {
    case cudaErrorMemoryAllocation:
      return absl::ResourceExhaustedError(message);
    case cudaErrorInvalidValue:
      return absl::InvalidArgumentError(message);
    default:
      return DeviceFaultError(message);
  }
}

absl::Status NcclStatus(ncclResult_t result, ncclComm_t comm, absl::string_view what) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  std::string message = absl::StrCat(what, ": NCCL says ", ncclGetErrorString(result));
  const char* detail = comm == nullptr ? nullptr : ncclGetLastError(comm);
  if (detail != nullptr && *detail != '\0') absl::StrAppend(&message, ", ", detail);
  switch (result) {
    case ncclRemoteError:
    case ncclSystemError:
      return absl::UnavailableError(message);
    case ncclUnhandledCudaError:
      return DeviceFaultError(message);
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return absl::InvalidArgumentError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace muster
