#include "common/tables/sparse_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "common/partition/initial_values.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<const Optimizer> MakeOptimizer(const std::string& name) {
  v1::OptimizerSpec spec;
  spec.set_name(name);
  spec.set_learning_rate(1);
  return *CreateOptimizer(spec, Granularity::kRow);
}

class SparseTableTest : public testing::Test {
 protected:
  const SparseTableSpec spec_{
      .name = "t",
      .dim = 3,
      .initializer = {.kind = Initializer::Kind::kUniform, .scale = 1, .value = 0},
      .weight_decay = false};
  const std::unique_ptr<const Optimizer> sgd_ = MakeOptimizer("sgd");
  const std::unique_ptr<const Optimizer> adagrad_ = MakeOptimizer("adagrad");

  std::vector<float> Initial(uint64_t key) const {
    std::vector<float> row(3);
    InitialRow(spec_, 7, key, absl::MakeSpan(row));
    return row;
  }
};

TEST_F(SparseTableTest, MissingRowsReadAsTheirInitialValuesAndAreNotMade) {
  SparseTable table(spec_, 7, *sgd_);
  std::vector<float> out(6);
  table.Pull({42, 43}, absl::MakeSpan(out));
  std::vector<float> expected = Initial(42);
  const std::vector<float> second = Initial(43);
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(out, expected);
  EXPECT_EQ(table.rows(), 0u);
}

TEST_F(SparseTableTest, UpdatesMakeRows) {
  SparseTable table(spec_, 7, *sgd_);
  table.Update({42}, {1, 2, 3}, {.learning_rate = 1}, SparseTable::Steps::kPerRow, 5, 9);
  std::vector<float> out(3);
  table.Pull({42}, absl::MakeSpan(out));
  const std::vector<float> initial = Initial(42);
  EXPECT_THAT(out, ElementsAre(initial[0] - 1, initial[1] - 2, initial[2] - 3));
  const SparseTable::Row& row = *table.Sorted()[0];
  EXPECT_EQ(row.key, 42u);
  EXPECT_EQ(row.lsn, 9u);
  EXPECT_EQ(row.steps, 1u);
  EXPECT_EQ(row.last_use, 5u);
}

TEST_F(SparseTableTest, LeavesRowsThatIncludeTheRecord) {
  SparseTable table(spec_, 7, *sgd_);
  const OptimizerStep step{.learning_rate = 1};
  table.Update({1}, {1, 1, 1}, step, SparseTable::Steps::kPerRow, 0, 9);
  table.Update({1, 2}, {1, 1, 1, 1, 1, 1}, step, SparseTable::Steps::kPerRow, 0, 9);
  EXPECT_EQ(table.Load(1).values()[0], Initial(1)[0] - 1);
  EXPECT_EQ(table.Load(2).values()[0], Initial(2)[0] - 1);
  EXPECT_EQ(table.Load(1).steps, 1u);
}

TEST_F(SparseTableTest, KeepsOptimizerStatePerRow) {
  SparseTable table(spec_, 7, *adagrad_);
  EXPECT_EQ(table.width(), 6u);
  const OptimizerStep step{.learning_rate = 1};
  table.Update({1}, {2, 2, 2}, step, SparseTable::Steps::kPerRow, 0, 0);
  table.Update({1}, {2, 2, 2}, step, SparseTable::Steps::kPerRow, 0, 0);
  EXPECT_FLOAT_EQ(table.Load(1).values()[3] - table.Load(2).values()[3], 8);
}

TEST_F(SparseTableTest, ManyRowsInManySlabs) {
  SparseTable table(spec_, 7, *sgd_);
  std::vector<uint64_t> keys(5000);
  std::iota(keys.begin(), keys.end(), 100);
  const std::vector<float> gradients(keys.size() * 3, 1);
  table.Update(keys, gradients, {.learning_rate = 1}, SparseTable::Steps::kGiven, 0, 0);
  std::vector<float> out(keys.size() * 3);
  table.Pull(keys, absl::MakeSpan(out));
  for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(out[i * 3], Initial(keys[i])[0] - 1);
  EXPECT_EQ(table.rows(), 5000u);
  EXPECT_GE(table.memory_bytes(), 5000u * 12);
  const auto sorted = table.Sorted();
  ASSERT_EQ(sorted.size(), 5000u);
  for (size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i]->key, 100 + i);
  const auto hundreds = table.Sorted([](uint64_t key) { return key % 100 == 0; });
  ASSERT_EQ(hundreds.size(), 50u);
  for (size_t i = 0; i < hundreds.size(); ++i) ASSERT_EQ(hundreds[i]->key, 100 + i * 100);
}

}  // namespace
}  // namespace muster
