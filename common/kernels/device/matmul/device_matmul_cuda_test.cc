// What is only true of cuBLASLt, on the stand-in; device_matmul_test.cc has the rest.
#include <gtest/gtest.h>

#include <vector>

#include "common/kernels/device/matmul/device_matmul.h"
#include "common/kernels/device/matmul/fake_cublaslt.h"

namespace muster {
namespace {

class DeviceMatmulCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    stream_ = *DeviceStream::Create();
    matmul_ = *MakeDeviceMatmul({.candidates = 8, .repetitions = 2});
    before_ = GetFakeCublasLtCounts();
  }

  absl::Status Run(int64_t m = 8) {
    const MatmulProblem problem = {.m = m, .n = 8, .k = 8};
    return matmul_->Run(*stream_, problem, {.a = a_.data(), .b = b_.data(), .c = c_.data()});
  }

  std::vector<float> a_ = std::vector<float>(64, 1.0f);
  std::vector<float> b_ = std::vector<float>(64, 1.0f);
  std::vector<float> c_ = std::vector<float>(64, 1.0f);
  std::unique_ptr<DeviceStream> stream_;
  std::unique_ptr<DeviceMatmul> matmul_;
  FakeCublasLtCounts before_;
};

TEST_F(DeviceMatmulCudaTest, TakesTheFirstProposalUnlessMeasuring) {
  ASSERT_TRUE(Run().ok());
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(GetFakeCublasLtCounts().heuristics - before_.heuristics, 1);
  EXPECT_EQ(GetFakeCublasLtCounts().runs - before_.runs, 2);
  ASSERT_EQ(matmul_->Choices().size(), 1);
  EXPECT_EQ(matmul_->Choices()[0].chosen, 0);
  EXPECT_EQ(matmul_->Choices()[0].proposals, 3);
}

TEST_F(DeviceMatmulCudaTest, MeasuresOnceAndKeepsTheFastest) {
  matmul_->StartMeasuring();
  ASSERT_TRUE(Run().ok());
  // One untimed and two timed runs of each algorithm that can run, then the product itself.
  EXPECT_EQ(GetFakeCublasLtCounts().runs - before_.runs, 2 * 3 + 1);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(GetFakeCublasLtCounts().runs - before_.runs, 2 * 3 + 2);
  matmul_->StopMeasuring();
  ASSERT_TRUE(Run().ok());
  ASSERT_EQ(matmul_->Choices().size(), 1);
  EXPECT_EQ(matmul_->Choices()[0].chosen, 1);
  EXPECT_EQ(matmul_->Choices()[0].microseconds, 1000);
  EXPECT_EQ(c_[0], 8);
}

TEST_F(DeviceMatmulCudaTest, KeepsABoundedNumberOfProducts) {
  matmul_->StartMeasuring();
  ASSERT_TRUE(Run().ok());
  matmul_->StopMeasuring();
  std::vector<float> a(1200 * 8, 1.0f), c(1200 * 8);
  for (int64_t m = 9; m < 1200; ++m) {
    const MatmulProblem problem = {.m = m, .n = 8, .k = 8};
    ASSERT_TRUE(
        matmul_->Run(*stream_, problem, {.a = a.data(), .b = b_.data(), .c = c.data()}).ok());
  }
  EXPECT_LE(matmul_->Choices().size(), 1024);
  EXPECT_EQ(matmul_->Choices()[0].microseconds, 1000) << "what was measured stays";
}

// A product that was first seen in a step is measured when there is time for it.
TEST_F(DeviceMatmulCudaTest, MeasuresWhatRanUnmeasured) {
  ASSERT_TRUE(Run().ok());
  ASSERT_TRUE(Run(4).ok());
  matmul_->StartMeasuring();
  ASSERT_TRUE(Run().ok());
  ASSERT_EQ(matmul_->Choices().size(), 2);
  EXPECT_EQ(matmul_->Choices()[0].chosen, 1);
  EXPECT_EQ(matmul_->Choices()[1].chosen, 0);
}

TEST_F(DeviceMatmulCudaTest, FreesWhatItDescribed) {
  ASSERT_TRUE(Run().ok());
  ASSERT_TRUE(Run(4).ok());
  EXPECT_GT(GetFakeCublasLtCounts().descriptors, before_.descriptors);
  matmul_ = nullptr;
  EXPECT_EQ(GetFakeCublasLtCounts().descriptors, 0);
}

}  // namespace
}  // namespace muster
