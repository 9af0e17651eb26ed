#include "server/shard/partition/admission/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "proto/partition_state.pb.h"
#include "server/shard/partition/apply/clocks.h"

namespace {

// Bytes that this program has asked for, as malloc rounds them.
std::atomic<uint64_t> allocated_bytes{0};

}  // namespace

void* operator new(size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  allocated_bytes += malloc_usable_size(memory) + sizeof(size_t);
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns what pushes blocks that these positions along kPartAxes own.
std::vector<BlockPushers> OfParts(const std::vector<int>& positions) {
  std::vector<BlockPushers> pushers;
  for (const int position : positions) pushers.push_back({kPartAxes, position});
  return pushers;
}

// The server's memory budget knows of them by these numbers alone.
TEST(LedgerTest, PredictsWhatItAndTheClocksTake) {
  for (const uint32_t blocks : {0u, 1u, 64u, 1000u}) {
    for (const uint32_t tables : {0u, 1u, 100u}) {
      const Ledger::Shape shape = {
          .mesh = Mesh({.replica = 50}), .dense_blocks = blocks, .sparse_tables = tables};
      uint64_t before = allocated_bytes;
      const Ledger ledger(shape, 0);
      const uint64_t taken = allocated_bytes - before;
      EXPECT_LE(taken, Ledger::PredictedBytes(shape)) << blocks << " " << tables;
      EXPECT_GE(3 * taken, Ledger::PredictedBytes(shape)) << blocks << " " << tables;
    }
  }
  uint64_t before = allocated_bytes;
  const Clocks clocks(50, 0);
  // Its slots are made once, and copied.
  EXPECT_LE(allocated_bytes - before, 2 * Clocks::PredictedBytes(50));
  EXPECT_GE(allocated_bytes - before, Clocks::PredictedBytes(50) / 2);
}

TEST(LedgerTest, ASlotOwesTheBlocksOfItsTensorRank) {
  const Ledger::Shape shape = {.mesh = Mesh({.replica = 2, .tensor = 2}),
                               .dense_blocks = 3,
                               .sparse_tables = 0,
                               .pushers = OfParts({0, 1, 1})};
  Ledger ledger(shape, 0);
  EXPECT_TRUE(ledger.Pushes(2, 0));
  EXPECT_FALSE(ledger.Pushes(3, 0));
  EXPECT_TRUE(ledger.Pushes(3, 2));
  ledger.AddBlock(2, 0);
  EXPECT_TRUE(ledger.CheckClose(2, {}, false).ok());
  ledger.AddBlock(3, 1);
  EXPECT_THAT(ledger.CheckClose(3, {}, false).message(),
              HasSubstr("1 of 2 pushes of dense blocks in; the first one missing is block 2"));
  v1::PartitionState state;
  ledger.Save(state);
  Ledger restored(shape, 0);
  ASSERT_TRUE(restored.Restore(state).ok());
  EXPECT_TRUE(restored.CheckClose(2, {}, false).ok());
  Ledger other({.mesh = Mesh({.replica = 2, .tensor = 2}),
                .dense_blocks = 3,
                .sparse_tables = 0,
                .pushers = OfParts({1, 1, 1})},
               0);
  EXPECT_TRUE(absl::IsDataLoss(other.Restore(state)));
}

TEST(LedgerTest, NobodyOwesFrozenBlocks) {
  const BlockPushers nobody = BlockPushers::Nobody();
  Ledger ledger({.mesh = Mesh({.replica = 2}),
                 .dense_blocks = 3,
                 .sparse_tables = 0,
                 .pushers = {nobody, {kPartAxes, 0}, nobody}},
                0);
  EXPECT_FALSE(ledger.Pushes(1, 0));
  EXPECT_TRUE(ledger.Pushes(1, 1));
  EXPECT_THAT(ledger.CheckClose(1, {}, false).message(),
              HasSubstr("0 of 1 pushes of dense blocks in; the first one missing is block 1"));
  ledger.AddBlock(1, 1);
  EXPECT_TRUE(ledger.CheckClose(1, {}, false).ok());
}

// Slots 0 to 3 are stage 0, slots 4 to 7 stage 1, of two tensor ranks each.
TEST(LedgerTest, ASlotOwesTheBlocksOfItsStage) {
  const Ledger ledger({.mesh = Mesh({.pipeline = 2, .replica = 2, .tensor = 2}),
                       .dense_blocks = 4,
                       .sparse_tables = 0,
                       .pushers = OfParts({0, 1, 2, 3})},
                      0);
  for (uint32_t slot = 0; slot < 8; ++slot) {
    for (uint32_t block = 0; block < 4; ++block) {
      EXPECT_EQ(ledger.Pushes(slot, block), block == slot / 4 * 2 + slot % 2) << slot << block;
    }
  }
}

// Two context ranks of two data ranks of two tensor ranks each: slots 0 to 7. Four ranks share out
// experts, so blocks 1 and 2 are of experts of the ranks 0 1 and 3 0.
TEST(LedgerTest, ASlotOwesItsExpertsAndEverythingElse) {
  const Ledger::Shape shape = {
      .mesh = Mesh({.replica = 2, .context_copies = 2, .tensor = 2, .expert = 4}),
      .dense_blocks = 3,
      .sparse_tables = 0,
      .pushers = {{kPartAxes, 1}, {kServedAxes, 1}, {kServedAxes, 6}}};
  Ledger ledger(shape, 0);
  for (uint32_t slot = 0; slot < 8; ++slot) {
    EXPECT_EQ(ledger.Pushes(slot, 0), slot % 2 == 1) << slot;
    EXPECT_EQ(ledger.Pushes(slot, 1), slot == 1) << slot;
    EXPECT_EQ(ledger.Pushes(slot, 2), slot == 6) << slot;
  }
  EXPECT_TRUE(ledger.CheckClose(0, {}, false).ok());
  ledger.AddBlock(1, 0);
  EXPECT_THAT(ledger.CheckClose(1, {}, false).message(),
              HasSubstr("1 of 2 pushes of dense blocks in; the first one missing is block 1"));
  ledger.AddBlock(1, 1);
  EXPECT_TRUE(ledger.CheckClose(1, {}, false).ok());
  EXPECT_THAT(ledger.CheckClose(6, {}, false).message(),
              HasSubstr("0 of 1 pushes of dense blocks in; the first one missing is block 2"));
  v1::PartitionState state;
  ledger.Save(state);
  state.mutable_slots(3)->add_dense_blocks(1);
  EXPECT_TRUE(absl::IsDataLoss(Ledger(shape, 0).Restore(state)));
}

TEST(LedgerTest, FencesLowerIncarnations) {
  Ledger ledger({.mesh = Mesh({.replica = 2}), .dense_blocks = 0, .sparse_tables = 0}, 0);
  EXPECT_TRUE(ledger.Enter(1, 7).ok());
  EXPECT_TRUE(ledger.Enter(1, 7).ok());
  EXPECT_TRUE(ledger.Enter(1, 8).ok());
  const absl::Status fenced = ledger.Enter(1, 7);
  EXPECT_TRUE(absl::IsAborted(fenced));
  EXPECT_THAT(fenced.message(), HasSubstr("incarnation 7, current is 8"));
  EXPECT_TRUE(ledger.Enter(0, 1).ok());
}

TEST(LedgerTest, KnowsClosedOpenAndFutureClocks) {
  Ledger ledger({.mesh = Mesh({.replica = 1}), .dense_blocks = 0, .sparse_tables = 0}, 3);
  EXPECT_TRUE(*ledger.IsClosed(0, 2));
  EXPECT_FALSE(*ledger.IsClosed(0, 3));
  EXPECT_TRUE(absl::IsFailedPrecondition(ledger.IsClosed(0, 4).status()));
  ledger.Close(0);
  EXPECT_TRUE(*ledger.IsClosed(0, 3));
}

TEST(LedgerTest, ClosesOnlyWhenAllHasCome) {
  Ledger ledger({.mesh = Mesh({.replica = 1}), .dense_blocks = 2, .sparse_tables = 2}, 0);
  EXPECT_THAT(ledger.CheckClose(0, {1, 0}, false).message(),
              HasSubstr("first one missing is block 0"));
  ledger.AddBlock(0, 0);
  EXPECT_THAT(ledger.CheckClose(0, {1, 0}, false).message(),
              HasSubstr("first one missing is block 1"));
  EXPECT_TRUE(absl::IsFailedPrecondition(ledger.CheckClose(0, {1, 0}, true)));
  ledger.AddBlock(0, 1);
  EXPECT_THAT(ledger.CheckClose(0, {1, 0}, false).message(), HasSubstr("chunk 0"));
  ledger.AddChunk(0, 0, 0);
  EXPECT_TRUE(ledger.CheckClose(0, {1, 0}, false).ok());
  // More came than the slot says it sent, or for another number of tables.
  EXPECT_TRUE(absl::IsInvalidArgument(ledger.CheckClose(0, {0, 0}, false)));
  EXPECT_TRUE(absl::IsInvalidArgument(ledger.CheckClose(0, {1}, false)));
  EXPECT_TRUE(absl::IsInvalidArgument(ledger.CheckClose(0, {}, false)));
}

TEST(LedgerTest, AGapInTheChunksIsFound) {
  Ledger ledger({.mesh = Mesh({.replica = 1}), .dense_blocks = 0, .sparse_tables = 1}, 0);
  ledger.AddChunk(0, 0, 4000000000);
  EXPECT_THAT(ledger.CheckClose(0, {4000000001}, false).message(), HasSubstr("chunk 0"));
}

TEST(LedgerTest, AllBlocksOrNone) {
  Ledger ledger({.mesh = Mesh({.replica = 1}), .dense_blocks = 2, .sparse_tables = 0}, 0);
  EXPECT_TRUE(ledger.CheckClose(0, {}, true).ok());
  EXPECT_FALSE(ledger.CheckClose(0, {}, false).ok());
}

TEST(LedgerTest, ClosesOnlyWhenAllMicroBatchesOfAllBlocksHaveCome) {
  Ledger ledger({.mesh = Mesh({.replica = 1}), .dense_blocks = 2, .micro_batches = 2}, 0);
  for (uint32_t block : {0, 1, 1}) ledger.AddBlock(0, block);
  EXPECT_EQ(ledger.MicroBatchesIn(0, 1), 2u);
  EXPECT_THAT(ledger.CheckClose(0, {}, false).message(),
              HasSubstr("3 of 4 pushes of dense blocks in; the first one missing is block 0 of "
                        "micro-batch 1"));
  EXPECT_TRUE(absl::IsFailedPrecondition(ledger.CheckClose(0, {}, true)));
  ledger.AddBlock(0, 0);
  EXPECT_TRUE(ledger.CheckClose(0, {}, false).ok());
  ledger.Close(0);
  EXPECT_EQ(ledger.MicroBatchesIn(0, 0), 0u);
}

TEST(LedgerTest, KeepsTheOpenClockAlone) {
  Ledger ledger({.mesh = Mesh({.replica = 1}), .dense_blocks = 1, .sparse_tables = 1}, 0);
  ledger.AddBlock(0, 0);
  ledger.AddChunk(0, 0, 0);
  ledger.Close(0);
  EXPECT_EQ(ledger.MicroBatchesIn(0, 0), 0u);
  EXPECT_FALSE(ledger.HasChunk(0, 0, 0));
  EXPECT_TRUE(ledger.HasContributionsFrom(0));
  EXPECT_FALSE(ledger.HasContributionsFrom(1));
  ledger.AddChunk(0, 0, 0);
  EXPECT_TRUE(ledger.HasContributionsFrom(1));
}

TEST(LedgerTest, ComesBackAsItWasSaved) {
  Ledger ledger({.mesh = Mesh({.replica = 2}), .dense_blocks = 3, .sparse_tables = 1}, 4);
  ASSERT_TRUE(ledger.Enter(1, 9).ok());
  ledger.Withdraw(1);
  ledger.Close(1);
  ledger.AddBlock(1, 2);
  ledger.AddChunk(0, 0, 5);
  ledger.Withdraw(0);
  v1::PartitionState state;
  ledger.Save(state);
  Ledger restored({.mesh = Mesh({.replica = 2}), .dense_blocks = 3, .sparse_tables = 1}, 0);
  ASSERT_TRUE(restored.Restore(state).ok());
  EXPECT_EQ(restored.incarnation(1), 9u);
  EXPECT_EQ(restored.closed(0), 4u);
  EXPECT_EQ(restored.closed(1), 5u);
  EXPECT_EQ(restored.slowest(), 4u);
  EXPECT_EQ(restored.MicroBatchesIn(1, 2), 1u);
  EXPECT_EQ(restored.MicroBatchesIn(0, 2), 0u);
  EXPECT_TRUE(restored.HasChunk(0, 0, 5));
  EXPECT_TRUE(restored.HasWithdrawn(0, 4));
  EXPECT_TRUE(restored.HasWithdrawn(1, 4));
  EXPECT_FALSE(restored.HasWithdrawn(1, 5));
  EXPECT_TRUE(absl::IsDataLoss(
      Ledger({.mesh = Mesh({.replica = 3}), .dense_blocks = 3, .sparse_tables = 1}, 0)
          .Restore(state)));
  EXPECT_TRUE(absl::IsDataLoss(
      Ledger({.mesh = Mesh({.replica = 2}), .dense_blocks = 2, .sparse_tables = 1}, 0)
          .Restore(state)));
  EXPECT_TRUE(absl::IsDataLoss(
      Ledger({.mesh = Mesh({.replica = 2}), .dense_blocks = 3, .sparse_tables = 2}, 0)
          .Restore(state)));
}

TEST(LedgerTest, AClosesWordClosesForSlotsThatAreLeftOut) {
  const Ledger::Shape shape = {.mesh = Mesh({.replica = 3}), .dense_blocks = 1};
  Ledger ledger(shape, 0);
  ledger.AddBlock(0, 0);
  EXPECT_THAT(ledger.Close(0, {2}), ElementsAre(0, 2));
  EXPECT_EQ(ledger.closed(2), 1u);
  // Slot 1 has yet to close clock 0, so clock 1 is not closed for it.
  EXPECT_THAT(ledger.Close(2, {1}), ElementsAre(2));
  EXPECT_EQ(ledger.closed(1), 0u);
  v1::PartitionState state;
  ledger.Save(state);
  for (const bool restored : {false, true}) {
    Ledger other(shape, 0);
    if (restored) ASSERT_TRUE(other.Restore(state).ok());
    Ledger& now = restored ? other : ledger;
    now.AddBlock(1, 0);
    EXPECT_THAT(now.Close(1), ElementsAre(1, 1)) << restored;
    EXPECT_EQ(now.closed(1), 2u);
    // A repeated close changes nothing.
    EXPECT_THAT(now.Close(0, {1}), ElementsAre(0));
    EXPECT_EQ(now.slowest(), 2u);
  }
}

TEST(LedgerTest, ASlotThatHasContributedIsNotLeftOut) {
  Ledger ledger({.mesh = Mesh({.replica = 2}), .dense_blocks = 1}, 0);
  EXPECT_TRUE(ledger.CheckLeftOut(0, {1}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(ledger.CheckLeftOut(0, {2})));
  ledger.AddBlock(1, 0);
  EXPECT_THAT(ledger.CheckLeftOut(0, {1}).message(), HasSubstr("slot 1, which has pushed"));
  // It may have pushed at an earlier clock.
  ledger.Close(0);
  EXPECT_TRUE(ledger.CheckLeftOut(0, {1}).ok());
}

TEST(LedgerTest, SavesHowManyMicroBatchesAreIn) {
  const Ledger::Shape shape = {.mesh = Mesh({.replica = 1}), .dense_blocks = 3, .micro_batches = 3};
  Ledger ledger(shape, 0);
  for (uint32_t block : {0, 0, 2}) ledger.AddBlock(0, block);
  v1::PartitionState state;
  ledger.Save(state);
  Ledger restored(shape, 0);
  ASSERT_TRUE(restored.Restore(state).ok());
  EXPECT_EQ(restored.MicroBatchesIn(0, 0), 2u);
  EXPECT_EQ(restored.MicroBatchesIn(0, 1), 0u);
  EXPECT_EQ(restored.MicroBatchesIn(0, 2), 1u);
  Ledger smaller({.mesh = Mesh({.replica = 1}), .dense_blocks = 3}, 0);
  EXPECT_THAT(smaller.Restore(state).message(), HasSubstr("block 0 more often than 1 times"));
}

TEST(LedgerTest, KnowsWhatPushesTellOfTheOpenClock) {
  Ledger ledger(
      {.mesh = Mesh({.replica = 2}), .dense_blocks = 2, .sparse_tables = 1, .micro_batches = 2}, 0);
  EXPECT_FALSE(ledger.told(0).has_value());
  ledger.NoteTold(0, {}, {.examples = 7, .rate_factor = 0.5});
  ASSERT_TRUE(ledger.told(0).has_value());
  EXPECT_EQ(ledger.told(0)->examples, 7);
  EXPECT_EQ(ledger.told(0)->rate_factor, 0.5);
  // Micro-batches of one block are told by themselves.
  ledger.NoteTold(0, {1}, {.examples = 3});
  ledger.NoteTold(0, {0}, {.examples = 3});
  ledger.NoteTold(0, {0, 1}, {.examples = 4});
  ledger.NoteTold(0, {}, {.examples = 7});
  EXPECT_EQ(ledger.told(0)->examples, 7);
  EXPECT_FALSE(ledger.told(1).has_value());
  ledger.AddChunk(0, 0, 3);
  EXPECT_EQ(ledger.chunks_in(0, 0), 1);
  ledger.Close(0);
  EXPECT_FALSE(ledger.told(0).has_value());
  EXPECT_EQ(ledger.chunks_in(0, 0), 0);
}

}  // namespace
}  // namespace muster
