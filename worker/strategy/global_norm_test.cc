#include "worker/strategy/global_norm.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Two partitions, three blocks of one float each.
DenseLayout Layout() {
  std::vector<TensorSpec> tensors(1);
  tensors[0].name = "w";
  tensors[0].shape = {3};
  DenseLayout::Options options;
  options.block_bytes = 4;
  options.partitions = 2;
  return DenseLayout::Create(tensors, options).value();
}

TEST(ClipByNormTest, BringsTheNormDownToTheBound) {
  // Partition 0 holds blocks 0 and 2, partition 1 block 1; one sparse table.
  const std::vector<std::vector<double>> norms = {{9, 0, 4}, {3, 0}};
  EXPECT_DOUBLE_EQ(ClipByNorm(Layout(), 1, norms, 2)->scale, 0.5);
  EXPECT_DOUBLE_EQ(*ClipByNorm(Layout(), 1, norms, 2)->norm, 4);
}

TEST(ClipByNormTest, ASmallGradientStaysAsItIs) {
  const std::vector<std::vector<double>> norms = {{9, 0, 4}, {3, 0}};
  EXPECT_EQ(ClipByNorm(Layout(), 1, norms, 4)->scale, 1);
  EXPECT_EQ(ClipByNorm(Layout(), 1, norms, 5)->scale, 1);
  EXPECT_EQ(ClipByNorm(Layout(), 0, {{0, 0}, {0}}, 5)->scale, 1);
}

TEST(ClipByNormTest, ANormThatIsNotFiniteIsDivergence) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ClipByNorm(Layout(), 0, {{infinity, 0}, {0}}, 1).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(ClipByNormTest, AWrongNumberOfNormsIsAnError) {
  absl::Status status = ClipByNorm(Layout(), 1, {{9, 0, 4}, {3}}, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("partition 1 reported 1 norms where 2"));
}

}  // namespace
}  // namespace muster
