#include "common/device/cuda_error.h"

#include <string>

#include "common/device/device_fault.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CudaErrorTest, SaysWhatWasTriedAndWhatCudaSays) {
  EXPECT_TRUE(CudaError(cudaSuccess, "a copy").ok());
  const absl::Status full = CudaError(cudaErrorMemoryAllocation, "allocation of 5 bytes");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()),
              HasSubstr("allocation of 5 bytes: CUDA says cudaErrorMemoryAllocation"));
  EXPECT_EQ(CudaError(cudaErrorNoDevice, "").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CudaError(cudaErrorInvalidValue, "").code(), absl::StatusCode::kInternal);
}

TEST(CudaErrorTest, FaultsOfTheProgramEndTheTaskTooButSaySo) {
  for (const cudaError_t error : {cudaErrorIllegalAddress, cudaErrorMisalignedAddress,
                                  cudaErrorIllegalInstruction, cudaErrorAssert}) {
    const absl::Status status = CudaError(error, "a stream's work");
    EXPECT_TRUE(IsDeviceFault(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("a kernel of this program is wrong"));
  }
  for (const cudaError_t error : {cudaErrorECCUncorrectable, cudaErrorHardwareStackError}) {
    const absl::Status status = CudaError(error, "a stream's work");
    EXPECT_TRUE(IsDeviceFault(status)) << status;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("program")));
  }
}

// Tasks are not moved to other devices for that.
TEST(CudaErrorTest, CodeThatADeviceCannotRunIsNoFaultOfIts) {
  for (const cudaError_t error : {cudaErrorUnsupportedPtxVersion, cudaErrorInvalidPtx,
                                  cudaErrorNoKernelImageForDevice, cudaErrorInvalidKernelImage}) {
    const absl::Status status = CudaError(error, "launch of gelu");
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("launch of gelu"), HasSubstr("compute capability"),
                      HasSubstr("code for sm_80,sm_90,compute_90;")));
  }
}

}  // namespace
}  // namespace muster
