#include "server/shard/tables/dense_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/shard/calls/test_exchange.h"

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

  // Of all blocks alike.
  void ApplySums(const OptimizerStep& step, uint64_t lsn) const {
    const std::vector<absl::optional<float>> scales(table_->size(), step.gradient_scale);
    table_->ApplySums(step, scales, lsn);
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
  ApplySums({.learning_rate = 1, .gradient_scale = 0.5}, 3);
  EXPECT_THAT(Pull(0, 2), ElementsAre(1, 1, 1, 1, 0, -0.5, -1, -1.5));
  EXPECT_EQ(table_->block(0).steps, 0u);
  EXPECT_EQ(table_->block(1).steps, 1u);
  EXPECT_EQ(table_->block(1).lsn, 3u);
  // The sums are gone.
  ApplySums({.learning_rate = 1}, 4);
  EXPECT_THAT(Pull(1, 1), ElementsAre(0, -0.5, -1, -1.5));
}

TEST_F(DenseTableTest, SignsOfTheSumsMoveWhatHasARateForThem) {
  v1::OpenTablesRequest request = TestOpenRequest(2);
  request.mutable_schema()->mutable_tensors(0)->set_sign_rate(0.25);
  request.mutable_schema()->mutable_optimizer()->set_name("adam");
  Make(request);
  for (int block = 0; block < 2; ++block) {
    table_->Accumulate(block, 0, Floats({1e30f, 2, -3, 0}));
    table_->Accumulate(block, 1, Floats({0, -2, 1, 0}));
  }
  table_->FinishSums();
  EXPECT_EQ(table_->SquaredNormOfSum(0), 0);
  // One block's step is left out.
  table_->ApplySums({.learning_rate = 1}, {1e-8f, absl::nullopt}, 3);
  EXPECT_THAT(Pull(0, 2), ElementsAre(0.75, 1, 1.25, 1, 1, 1, 1, 1));
  EXPECT_THAT(table_->block(0).state_values(), Each(0));
  // A gradient that no clock sums.
  table_->Update(1, Floats({-1, 0, 0, 1}), {.learning_rate = 0}, 4);
  EXPECT_THAT(Pull(1, 1), ElementsAre(1.25, 1, 1, 0.75));
}

TEST_F(DenseTableTest, EachBlockHasItsOwnScaleOrStaysAsItIs) {
  Make(TestOpenRequest(1));
  for (int block = 0; block < 2; ++block) table_->Accumulate(block, 0, Floats({1, 2, 3, 4}));
  table_->ApplySums({.learning_rate = 1}, {absl::nullopt, 0.5f}, 3);
  EXPECT_THAT(Pull(0, 2), ElementsAre(1, 1, 1, 1, 0.5, 0, -0.5, -1));
  EXPECT_EQ(table_->block(0).steps, 0u);
  EXPECT_EQ(table_->block(0).lsn, 0u);
  EXPECT_EQ(table_->block(1).steps, 1u);
  // The sum that was left out is gone, too.
  ApplySums({.learning_rate = 1}, 4);
  EXPECT_THAT(Pull(0, 1), Each(1));
}

TEST_F(DenseTableTest, RecordsThatAreInAreSkipped) {
  Make(TestOpenRequest(1));
  table_->Update(0, Floats({1, 1, 1, 1}), {.learning_rate = 1}, 5);
  table_->Update(0, Floats({1, 1, 1, 1}), {.learning_rate = 1}, 5);
  EXPECT_THAT(Pull(0, 1), Each(0));
  table_->Accumulate(0, 0, Floats({1, 1, 1, 1}));
  ApplySums({.learning_rate = 1}, 4);
  EXPECT_THAT(Pull(0, 1), Each(0));
}

TEST_F(DenseTableTest, KeepsThePreviousWeightsInSlotOrderJobs) {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  request.mutable_update()->set_deterministic(true);
  Make(request);
  for (int clock = 0; clock < 2; ++clock) {
    table_->Accumulate(0, 0, Floats({1, 1, 1, 1}));
    table_->FinishSums();
    ApplySums({.learning_rate = 1}, 0);
  }
  EXPECT_THAT(Pull(0, 1), Each(-1));
  EXPECT_THAT(Pull(0, 2, DenseTable::Version::kPrevious), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

// What a slot pushed lies in memory of its own, which others of its pushes are to go through.
TEST_F(DenseTableTest, HoldsOneBlockOfSeveralSlotsPushesAndAllOfAnOnlyOnes) {
  constexpr int kBlocks = 3;
  constexpr uint64_t kElements = (1 << 20) / sizeof(float);
  for (const auto& [slots, deterministic] :
       std::vector<std::pair<uint32_t, bool>>{{1, false}, {2, false}, {2, true}}) {
    v1::OpenTablesRequest request = TestOpenRequest(slots);
    request.mutable_update()->set_deterministic(deterministic);
    request.mutable_schema()->mutable_tensors(0)->set_shape(0, kBlocks * kElements);
    request.mutable_schema()->set_block_bytes(1 << 20);
    Make(request);
    for (int clock = 0; clock < 2; ++clock) {
      std::vector<std::weak_ptr<const void>> pushed;
      for (int block = 0; block < kBlocks; ++block) {
        const Payload gradient = Payload::Of(std::vector<float>(kElements, 1));
        pushed.push_back(gradient.owner());
        // In slot order this one comes early.
        table_->Accumulate(block, slots - 1, gradient);
      }
      EXPECT_FALSE(pushed[0].expired());
      EXPECT_EQ(pushed[1].expired(), slots > 1);
      EXPECT_EQ(pushed[2].expired(), slots > 1);
      for (int block = 0; slots > 1 && block < kBlocks; ++block) {
        table_->Accumulate(block, 0, Payload::Of(std::vector<float>(kElements, 2)));
        EXPECT_TRUE(pushed[block].expired());
      }
      ApplySums({.learning_rate = 1}, 0);
      table_->Settle();
      EXPECT_TRUE(pushed[0].expired());
      EXPECT_THAT(Pull(0, kBlocks), Each(slots > 1 ? -2 - 3 * clock : -clock));
    }
  }
}

TEST_F(DenseTableTest, HoldsAllThatIsFreeToKeepUntilTheStep) {
  constexpr uint32_t kSlots = 4;
  for (const bool deterministic : {false, true}) {
    v1::OpenTablesRequest request = TestOpenRequest(kSlots);
    request.mutable_update()->set_deterministic(deterministic);
    Make(request);
    for (int clock = 0; clock < 2; ++clock) {
      std::vector<std::weak_ptr<const void>> pushed;
      // In slot order all but the last come early.
      for (uint32_t slot = kSlots; slot-- > 0;) {
        const Payload gradient = Floats({1, 2, 3, 4.0f * static_cast<float>(slot)});
        pushed.push_back(gradient.owner());
        table_->Accumulate(1, slot, gradient, DenseTable::Keeping::kFree);
      }
      for (const auto& owner : pushed) EXPECT_FALSE(owner.expired());
      const uint64_t kept = table_->memory_bytes() - table_->value_bytes();
      EXPECT_EQ(kept, 0u);
      table_->FinishSums();
      ApplySums({.learning_rate = 1}, 0);
      for (const auto& owner : pushed) EXPECT_FALSE(owner.expired());
      table_->Settle();
      for (const auto& owner : pushed) EXPECT_TRUE(owner.expired());
    }
    EXPECT_THAT(Pull(1, 1), ElementsAre(1 - 2 * 4, 1 - 2 * 8, 1 - 2 * 12, 1 - 2 * 24));
  }
}

// One connection may copy, and another not.
TEST_F(DenseTableTest, AddsWhatIsFreeToKeepAndWhatIsNotInAnyOrder) {
  constexpr uint32_t kSlots = 3;
  using Keeping = DenseTable::Keeping;
  for (const bool deterministic : {false, true}) {
    for (int free = 0; free < 1 << kSlots; ++free) {
      v1::OpenTablesRequest request = TestOpenRequest(kSlots);
      request.mutable_update()->set_deterministic(deterministic);
      Make(request);
      for (int clock = 0; clock < 2; ++clock) {
        for (uint32_t slot : {1u, 2u, 0u}) {
          table_->Accumulate(1, slot, Floats({1, 2, 4, 8.0f * static_cast<float>(slot)}),
                             free >> slot & 1 ? Keeping::kFree : Keeping::kScarce);
        }
        table_->FinishSums();
        EXPECT_EQ(table_->SquaredNormOfSum(1), 9 + 36 + 144 + 24 * 24);
        ApplySums({.learning_rate = 1}, 0);
        table_->Settle();
        EXPECT_EQ(table_->memory_bytes(), table_->value_bytes());
      }
      EXPECT_THAT(Pull(1, 1), ElementsAre(1 - 2 * 3, 1 - 2 * 6, 1 - 2 * 12, 1 - 2 * 24));
    }
  }
}

// Some micro-batches are too small to change the sum of all, but not the sum of their slot.
TEST_F(DenseTableTest, AddsWhatAreSumsOfMicroBatchesOfEachSlotAndKeepsNoneAsItCame) {
  constexpr float kSmall = 0x1p-24f;
  const float gradients[3][2] = {{kSmall, kSmall}, {1, 0}, {kSmall, kSmall}};
  // The slots in the order in which their micro-batches arrive.
  const std::vector<std::vector<uint32_t>> orders = {
      {0, 0, 1, 1, 2, 2}, {2, 2, 1, 1, 0, 0}, {2, 1, 0, 0, 1, 2}, {0, 1, 2, 1, 2, 0}};
  for (const bool deterministic : {true, false}) {
    for (const std::vector<uint32_t>& order : orders) {
      v1::OpenTablesRequest request = TestOpenRequest(3);
      request.mutable_update()->set_deterministic(deterministic);
      request.mutable_schema()->mutable_tensors(0)->mutable_initializer()->set_value(0);
      request.set_pushed_micro_batches(2);
      Make(request);
      for (int clock = 0; clock < 2; ++clock) {
        uint32_t next[3] = {};
        for (const uint32_t slot : order) {
          Payload gradient = Floats(std::vector<float>(4, gradients[slot][next[slot]++]));
          const std::weak_ptr<const void> pushed = gradient.owner();
          table_->Accumulate(1, slot, std::move(gradient), DenseTable::Keeping::kImpossible);
          EXPECT_TRUE(pushed.expired());
        }
        EXPECT_LE(table_->memory_bytes() - table_->value_bytes(), 3 * 4 * sizeof(float));
        table_->FinishSums();
        ApplySums({.learning_rate = 1}, 0);
      }
      // Slot order gives 1 + 2^-23 + 2^-23 each time; in order of arrival each small gradient alone
      // may be lost.
      if (deterministic) EXPECT_THAT(Pull(1, 1), Each(-2 * (1 + 4 * kSmall)));
      EXPECT_THAT(Pull(1, 1), Each(testing::FloatNear(-2, 1e-6f)));
    }
  }
}

TEST_F(DenseTableTest, KeepsNothingOfASlotThatUsesItsMemoryAgain) {
  for (const bool deterministic : {true, false}) {
    for (const uint32_t slots : {1, 2}) {
      v1::OpenTablesRequest request = TestOpenRequest(slots);
      request.mutable_update()->set_deterministic(deterministic);
      request.set_pushed_micro_batches(1);
      Make(request);
      for (uint32_t slot = slots; slot-- > 0;) {
        Payload gradient = Floats({1, 2, 3, 4});
        const std::weak_ptr<const void> pushed = gradient.owner();
        table_->Accumulate(0, slot, std::move(gradient), DenseTable::Keeping::kImpossible);
        EXPECT_TRUE(pushed.expired());
      }
      table_->FinishSums();
      ApplySums({.learning_rate = 1}, 0);
      const float n = slots;
      EXPECT_THAT(Pull(0, 1), ElementsAre(1 - n, 1 - 2 * n, 1 - 3 * n, 1 - 4 * n));
    }
  }
}

TEST_F(DenseTableTest, MakesTheStepOfABlockWhenSomebodyLooksAtIt) {
  Make(TestOpenRequest(1));
  EXPECT_TRUE(table_->settled());
  for (int clock = 0; clock < 2; ++clock) {
    std::vector<std::weak_ptr<const void>> pushed;
    for (int block = 0; block < 2; ++block) {
      const Payload gradient = Floats({1, 1, 1, 1});
      pushed.push_back(gradient.owner());
      table_->Accumulate(block, 0, gradient);
    }
    ApplySums({.learning_rate = 1}, 1 + clock);
    // The other's waits, with its sum.
    EXPECT_THAT(Pull(1, 1), Each(-clock));
    EXPECT_TRUE(pushed[1].expired());
    EXPECT_FALSE(pushed[0].expired());
    EXPECT_FALSE(table_->settled());
    EXPECT_EQ(table_->memory_bytes(), (8 + 4) * sizeof(float));
  }
  // The first clock's was made before the second's began.
  EXPECT_EQ(table_->block(0).steps, 2u);
  EXPECT_EQ(table_->block(0).lsn, 2u);
  EXPECT_THAT(Pull(0, 1), Each(-1));
  EXPECT_TRUE(table_->settled());
}

TEST_F(DenseTableTest, ThePreviousWeightsAreThoseAfterTheStepThatWasLeft) {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  request.mutable_update()->set_deterministic(true);
  Make(request);
  table_->Accumulate(0, 0, Floats({1, 1, 1, 1}));
  ApplySums({.learning_rate = 1}, 0);
  EXPECT_THAT(Pull(0, 1, DenseTable::Version::kPrevious), Each(1));
  table_->ApplySums({.learning_rate = 1}, {absl::nullopt, absl::nullopt}, 0);
  EXPECT_THAT(Pull(0, 1, DenseTable::Version::kPrevious), Each(0));
  EXPECT_THAT(Pull(0, 1), Each(0));
}

}  // namespace
}  // namespace muster
