// The kernels against their reference on the host, bit for bit.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/collectives/nccl/device_memory_for_testing.h"
#include "worker/collectives/nccl/device_reduce.h"
#include "worker/collectives/reduce/reduce_kernels.h"

namespace muster {
namespace {

// Numbers of all magnitudes; each row differs.
HostBytes Row(DType dtype, size_t count, int row) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    const double x = std::sin(static_cast<double>(i * 37 + row * 101 + 1));
    values[i] = dtype == DType::kUint8 ? std::floor(x * x * 255) : std::ldexp(x, i % 13);
  }
  return Elements(dtype, values);
}

void CheckReduction(DType dtype, Reduction reduction, int sources, size_t count) {
  SCOPED_TRACE(absl::StrCat(Name(dtype), " ", Name(reduction), ", ", sources, " rows of ", count));
  const size_t stride = count + 5;
  DeviceMemory rows(sources * stride * SizeOf(dtype));
  DeviceMemory out(count * SizeOf(dtype));
  std::vector<HostBytes> inputs;
  std::vector<const void*> pointers;
  for (int s = 0; s < sources; ++s) {
    inputs.push_back(Row(dtype, count, s));
    rows.Write(inputs.back(), s * stride * SizeOf(dtype));
  }
  for (const HostBytes& input : inputs) pointers.push_back(input.data());
  ASSERT_EQ(ReduceRowsOnDevice(dtype, reduction, rows.data(), stride, sources, count, out.data(),
                               nullptr),
            cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  HostBytes want(count * SizeOf(dtype));
  ReduceOp op;
  op.dtype = dtype;
  op.reduction = reduction;
  op.divisor = reduction == Reduction::kAvg ? sources : 1;
  ReduceInto(op, pointers, count, want.data());
  EXPECT_TRUE(out.Read(0, want.size()) == want) << "the reduction differs";

  ASSERT_EQ(DivideOnDevice(dtype, out.data(), count, 3, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  op.reduction = Reduction::kAvg;
  op.divisor = 3;
  const void* const first = want.data();
  ReduceInto(op, {&first, 1}, count, want.data());
  EXPECT_TRUE(out.Read(0, want.size()) == want) << "the division differs";
}

class DeviceReduceGpuTest : public ::testing::TestWithParam<DType> {};

TEST_P(DeviceReduceGpuTest, MatchesTheHost) {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess) {
    GTEST_SKIP() << "no GPU: cudaGetDeviceCount says " << cudaGetErrorName(result) << ", "
                 << cudaGetErrorString(result);
  }
  if (devices == 0) GTEST_SKIP() << "no GPU: the driver knows no device";
  for (Reduction reduction :
       {Reduction::kSum, Reduction::kAvg, Reduction::kMin, Reduction::kMax, Reduction::kProd}) {
    for (int sources : {1, 2, 5}) {
      for (size_t count : {0, 1, 1023, 1 << 20}) {
        CheckReduction(GetParam(), reduction, sources, count);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceReduceGpuTest,
                         ::testing::Values(DType::kF32, DType::kF64, DType::kF16, DType::kBf16,
                                           DType::kInt32, DType::kInt64, DType::kUint8),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace muster
