// Tests which products an engine asks for. A library that lacks one of them is linked in place of
// the real one.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/device/emulated_device_counts.h"
#include "common/kernels/device/matmul/device_matmul.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/runtime/device/cpu_reference_for_testing.h"
#include "worker/runtime/device/device_rank_for_testing.h"

namespace muster {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kProductsVocabulary = 37;

// The products that the engine asked for.
struct Products {
  // The rows of products with GELU's gradient that are missing; 0: none is.
  int64_t lacking_rows = 0;
  bool measuring = false;
  int refused = 0;
  absl::flat_hash_set<MatmulProblem> measured;
  std::vector<std::string> not_measured;
};
Products products;

// Computes nothing, so that all is 0, and lacks products with GELU's gradient.
class RecordingMatmul final : public DeviceMatmul {
 public:
  absl::Status Run(DeviceStream&, const MatmulProblem& problem, const MatmulOperands&) override {
    if (problem.epilogue == MatmulEpilogue::kGeluGradient &&
        (products.lacking_rows == 0 || products.lacking_rows == problem.m)) {
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

class DeviceProductsTest : public ::testing::Test {
 protected:
  void SetUp() override { products = Products(); }

  // Returns a rank whose micro-batches have at most 3 sequences of 9 tokens. Null, and a failed
  // test, after an error.
  static std::unique_ptr<DeviceRank> Make() {
    v1::JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"pb(
          model { transformer { layers: 2 width: 32 heads: 2 context: 9 } }
          compute { device: CUDA type: BF16 }
          update { dense: ALL_REDUCE sparse: ALL_REDUCE }
          optimizer { name: "adamw" learning_rate: 0.01 }
          workers: 1
          batch_size: 3
        )pb",
        &spec));
    auto rank = DeviceRank::Create(spec, kProductsVocabulary);
    EXPECT_TRUE(rank.ok()) << rank.status();
    return rank.ok() ? *std::move(rank) : nullptr;
  }
};

// The first pass finds the gap in backward, when forward's fused products have been measured.
TEST_F(DeviceProductsTest, WhatTakesAFusedProductsPlaceIsMeasuredToo) {
  const auto rank = Make();
  ASSERT_NE(rank, nullptr);
  EXPECT_EQ(products.refused, 1);
  EXPECT_THAT(products.measured, ::testing::Not(IsEmpty()));
  // The largest micro-batch, whose graph is captured at once.
  const int64_t before = CountsOfEmulatedDevice().captures;
  const auto result = rank->Train({{RandomSequences(3, 9, kProductsVocabulary, 1), 0}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(CountsOfEmulatedDevice().captures - before, 1);
  EXPECT_EQ(products.refused, 1);
  EXPECT_THAT(products.not_measured, IsEmpty());
}

// cuBLASLt's fast kernels read and write rows that begin at multiples of 16 bytes alone.
TEST_F(DeviceProductsTest, RowsOfLogitsAreAlignedWhateverTheVocabulary) {
  ASSERT_NE(Make(), nullptr);
  int of_logits = 0;
  for (const MatmulProblem& p : products.measured) {
    const bool writes_logits = p.n == kProductsVocabulary;
    if (!writes_logits && p.m != kProductsVocabulary && p.k != kProductsVocabulary) continue;
    ++of_logits;
    const size_t bytes = writes_logits ? p.c_stride * SizeOf(p.out) : p.a_stride * SizeOf(p.in);
    EXPECT_GT(bytes, 0) << Describe(p);
    EXPECT_EQ(bytes % 16, 0) << Describe(p);
  }
  EXPECT_EQ(of_logits, 3);
}

// Micro-batches of other extents than those of warming up, for which the library lacks a product.
TEST_F(DeviceProductsTest, NothingRunsForTheFirstTimeInACapture) {
  products.lacking_rows = 5;
  const auto rank = Make();
  ASSERT_NE(rank, nullptr);
  EXPECT_EQ(products.refused, 0);
  const PlacedBatch batch = {RandomSequences(1, products.lacking_rows, kProductsVocabulary, 1), 0};
  const auto captures = [&](const std::vector<PlacedBatch>& micro_batches) {
    const int64_t before = CountsOfEmulatedDevice().captures;
    const auto result = rank->Train(micro_batches);
    EXPECT_TRUE(result.ok()) << result.status();
    return CountsOfEmulatedDevice().captures - before;
  };
  // Fused; without.
  EXPECT_EQ(captures({batch, batch}), 0);
  EXPECT_EQ(products.refused, 1);
  // The micro-batch's graph, and the update's.
  EXPECT_EQ(captures({batch}), 2);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMatmul>> MakeDeviceMatmul(const DeviceMatmulOptions&) {
  return std::make_unique<RecordingMatmul>();
}

}  // namespace muster
