#include "tests/benchmarks/train_case.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tests/benchmarks/train_stepper.h"

namespace muster {
namespace {

TEST(TrainCasesTest, ItemsAreThoseOfABatch) {
  for (const TrainCase& one : TrainCases()) {
    const std::vector<Batch> batches = RandomBatches(one, 2);
    ASSERT_EQ(batches.size(), 2);
    const bool tokens = one.unit == "tokens";
    EXPECT_EQ(one.items,
              tokens ? static_cast<int64_t>(batches[0].tokens.size()) : batches[0].examples)
        << one.name;
    EXPECT_NE(batches[0].labels, batches[1].labels) << one.name;
    EXPECT_GT(one.flops_per_item, 0) << one.name;
  }
}

// The smaller ones: a few steps on one batch make its loss smaller.
TEST(TrainCasesTest, Train) {
  for (const TrainCase& one : TrainCases()) {
    if (one.name == "gpt2-124m") continue;
    auto stepper = TrainStepper::Create(one.spec, one.data, RandomBatches(one, 1));
    ASSERT_TRUE(stepper.ok()) << stepper.status();
    ASSERT_TRUE((*stepper)->Step().ok());
    const double before = (*stepper)->loss();
    EXPECT_NEAR(before, std::log(static_cast<double>(one.data.classes)), 0.3) << one.name;
    for (int step = 0; step < 4; ++step) ASSERT_TRUE((*stepper)->Step().ok());
    EXPECT_LT((*stepper)->loss(), before) << one.name << " " << one.type;
  }
}

}  // namespace
}  // namespace muster
