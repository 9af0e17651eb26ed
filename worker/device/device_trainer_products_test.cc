// Which products the trainer asks for, with a library that lacks one of them: linked in the place
// of those that compute.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/device/emulated_device_counts.h"
#include "common/device/matmul/device_matmul.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cpu_reference_for_testing.h"
#include "worker/device/device_trainer_for_testing.h"

namespace muster {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kVocabulary = 37;
constexpr int64_t kLength = 9;
constexpr int64_t kSequences = 3;

// What the trainer asked for.
struct Products {
  bool measuring = false;
  int refused = 0;
  absl::flat_hash_set<MatmulProblem> measured;
  std::vector<std::string> not_measured;
};
Products products;

// Computes nothing, so that all is 0, and has no product with GELU's gradient.
class RecordingMatmul final : public DeviceMatmul {
 public:
  absl::Status Run(DeviceStream&, const MatmulProblem& problem, const MatmulOperands&) override {
    if (problem.epilogue == MatmulEpilogue::kGeluGradient) {
      ++products.refused;
      return absl::UnimplementedError("no such product");
    }
    if (products.measuring) {
      products.measured.insert(problem);
    } else if (!products.measured.contains(problem)) {
      products.not_measured.push_back(Describe(problem));
    }
    return absl::OkStatus();
  }

  void StartMeasuring() override { products.measuring = true; }
  void StopMeasuring() override { products.measuring = false; }
  std::vector<MatmulChoice> Choices() const override { return {}; }
};

class DeviceTrainerProductsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    products = Products();
    const CpuReference reference("layers: 2 width: 32 heads: 2 context: 9", kVocabulary, "");
    DeviceTrainerOptions options;
    options.shape = reference.shape();
    options.compute.type = DType::kBf16;
    options.compute.sequences = kSequences;
    options.compute.length = kLength;
    options.compute.workspace_bytes = size_t{1} << 22;
    auto trainer = DeviceTrainer::Create(options, nullptr);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    trainer_ = *std::move(trainer);
  }

  std::unique_ptr<DeviceTrainer> trainer_;
};

// The first pass finds the gap in backward, when forward's fused products have been measured.
TEST_F(DeviceTrainerProductsTest, WhatTakesAFusedProductsPlaceIsMeasuredToo) {
  ASSERT_TRUE(trainer_->WarmUp().ok());
  EXPECT_EQ(products.refused, 1);
  EXPECT_THAT(products.measured, ::testing::Not(IsEmpty()));
  EXPECT_THAT(products.not_measured, IsEmpty());
  EXPECT_EQ(trainer_->extents_with_graphs(), 1);
}

// cuBLASLt's fast kernels read and write rows that begin at multiples of 16 bytes alone.
TEST_F(DeviceTrainerProductsTest, RowsOfLogitsAreAlignedWhateverTheVocabulary) {
  ASSERT_TRUE(trainer_->WarmUp().ok());
  int of_logits = 0;
  for (const MatmulProblem& p : products.measured) {
    const bool writes_logits = p.n == kVocabulary;
    if (!writes_logits && p.m != kVocabulary && p.k != kVocabulary) continue;
    ++of_logits;
    const size_t bytes = writes_logits ? p.c_stride * SizeOf(p.out) : p.a_stride * SizeOf(p.in);
    EXPECT_GT(bytes, 0) << Describe(p);
    EXPECT_EQ(bytes % 16, 0) << Describe(p);
  }
  EXPECT_EQ(of_logits, 3);
}

TEST_F(DeviceTrainerProductsTest, NothingRunsForTheFirstTimeInACapture) {
  const Batch batch = RandomSequences(kSequences, kLength, kVocabulary, 1);
  ASSERT_TRUE(trainer_->BeginStep(0).ok());
  const int64_t before = CountsOfEmulatedDevice().captures;
  // Fused; without; by a graph.
  for (const int64_t captures : {0, 0, 1}) {
    ASSERT_TRUE(trainer_->AddMicroBatch(batch, 0, SeriesPosition::kMoreFollow).ok());
    EXPECT_EQ(CountsOfEmulatedDevice().captures - before, captures);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMatmul>> MakeDeviceMatmul(const DeviceMatmulOptions&) {
  return std::make_unique<RecordingMatmul>();
}

}  // namespace muster
