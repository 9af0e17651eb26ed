#include "server/shard/dense_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/shard/test_exchange.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class DenseTableTest : public testing::Test {
 protected:
  void Make(const v1::OpenTablesRequest& request) {
    table_ =
        std::make_unique<DenseTable>(*JobTables::Create(request), 0, BufferPool::Create(1 << 20));
  }

  std::vector<float> Pull(uint32_t first, uint32_t count,
                          DenseTable::Version version = DenseTable::Version::kCurrent) const {
    const Payload payload = table_->Pull(first, count, version);
    std::vector<float> values(payload.size() / sizeof(float));
    payload.CopyTo(values.data());
    return values;
  }

  std::unique_ptr<DenseTable> table_;
};

TEST_F(DenseTableTest, KnowsItsBlocks) {
  Make(TestOpenRequest(1));
  EXPECT_EQ(table_->size(), 2u);
  EXPECT_EQ(table_->PayloadBytes(0, 2), 32u);
  EXPECT_EQ(table_->PayloadBytes(1, 1), 16u);
  EXPECT_THAT(Pull(0, 2), Each(1));
}

TEST_F(DenseTableTest, OneStepOverTheSumsOfTheBlocksThatHaveOne) {
  Make(TestOpenRequest(2));
  table_->Accumulate(1, 0, Floats({1, 2, 3, 4}));
  table_->Accumulate(1, 1, Floats({1, 1, 1, 1}));
  EXPECT_EQ(table_->SquaredNormOfSum(0), 0);
  EXPECT_EQ(table_->SquaredNormOfSum(1), 4 + 9 + 16 + 25);
  table_->FinishSums();
  table_->ApplySums({.learning_rate = 1, .gradient_scale = 0.5}, 3);
  EXPECT_THAT(Pull(0, 2), ElementsAre(1, 1, 1, 1, 0, -0.5, -1, -1.5));
  EXPECT_EQ(table_->block(0).steps, 0u);
  EXPECT_EQ(table_->block(1).steps, 1u);
  EXPECT_EQ(table_->block(1).lsn, 3u);
  // The sums are gone.
  table_->ApplySums({.learning_rate = 1}, 4);
  EXPECT_THAT(Pull(1, 1), ElementsAre(0, -0.5, -1, -1.5));
}

TEST_F(DenseTableTest, RecordsThatAreInAreSkipped) {
  Make(TestOpenRequest(1));
  table_->Update(0, Floats({1, 1, 1, 1}), {.learning_rate = 1}, 5);
  table_->Update(0, Floats({1, 1, 1, 1}), {.learning_rate = 1}, 5);
  EXPECT_THAT(Pull(0, 1), Each(0));
  table_->Accumulate(0, 0, Floats({1, 1, 1, 1}));
  table_->ApplySums({.learning_rate = 1}, 4);
  EXPECT_THAT(Pull(0, 1), Each(0));
}

TEST_F(DenseTableTest, KeepsThePreviousWeightsInSlotOrderJobs) {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  request.mutable_update()->set_deterministic(true);
  Make(request);
  for (int clock = 0; clock < 2; ++clock) {
    table_->Accumulate(0, 0, Floats({1, 1, 1, 1}));
    table_->FinishSums();
    table_->ApplySums({.learning_rate = 1}, 0);
  }
  EXPECT_THAT(Pull(0, 1), Each(-1));
  EXPECT_THAT(Pull(0, 2, DenseTable::Version::kPrevious), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

}  // namespace
}  // namespace muster
