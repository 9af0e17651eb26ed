// Jobs whose slots push the dense gradients of single micro-batches.
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/partition/partition_fixture.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PartitionMicroBatchTest : public PartitionTest {
 protected:
  static v1::OpenTablesRequest OpenRequest(uint32_t slots, uint32_t micro_batches) {
    v1::OpenTablesRequest request = TestOpenRequest(slots);
    request.set_pushed_micro_batches(micro_batches);
    return request;
  }

  static v1::ExchangeRequest Push(uint32_t slot, uint32_t micro_batch, uint32_t first_block = 0,
                                  uint32_t blocks = 2) {
    v1::ExchangeRequest request = TestDensePush(slot, 0, first_block, blocks);
    request.mutable_dense_push()->set_micro_batch(micro_batch);
    return request;
  }

  static Payload Gradient(float value, uint32_t blocks = 2) {
    return Floats(std::vector<float>(4 * blocks, value));
  }
};

TEST_F(PartitionMicroBatchTest, AClockIsOneUpdateOverThemAll) {
  for (const bool deterministic : {true, false}) {
    v1::OpenTablesRequest request = OpenRequest(2, 3);
    request.mutable_update()->set_deterministic(deterministic);
    Open(request);
    for (uint32_t m = 0; m < 3; ++m) {
      for (uint32_t slot : {1, 0}) {
        v1::ExchangeRequest push = Push(slot, m);
        push.mutable_dense_push()->set_examples(m == 1 ? 2 : 1);
        Do(push, Gradient(static_cast<float>(1 + m)));
      }
    }
    for (uint32_t slot : {0, 1}) {
      v1::ExchangeRequest close = TestClose(slot, 0, 0);
      close.mutable_close()->set_examples(4);
      Do(close);
    }
    // 1 - 2 (1 + 2 + 3) / 8 examples.
    EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), Each(-0.5));
  }
}

// This holds without determinism, too: backward must read what forward has read.
TEST_F(PartitionMicroBatchTest, ASlotThatRepeatsTheClockReadsItsValuesAgain) {
  for (const bool deterministic : {true, false}) {
    v1::OpenTablesRequest request = OpenRequest(1, 1);
    request.mutable_update()->set_deterministic(deterministic);
    Open(request);
    Do(Push(0, 0), Gradient(1));
    v1::ExchangeRequest close = TestClose(0, 0, 0);
    close.mutable_close()->set_examples(1);
    Do(close);
    EXPECT_THAT(Do(TestDensePull(0, 0, 0, 2)).floats(), Each(1));
    EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), Each(0));
  }
}

TEST_F(PartitionMicroBatchTest, EachCountsOnceAndInOrder) {
  Open(OpenRequest(1, 2));
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, Push(0, 1), Gradient(9)),
              HasSubstr("micro-batch 1 of block 0 comes before micro-batch 0"));
  Do(Push(0, 0, 0, 1), Gradient(1, 1));
  // A task that repeats the clock may divide its pushes otherwise.
  EXPECT_FALSE(Do(Push(0, 0), Floats({9, 9, 9, 9, 2, 2, 2, 2})).reply().already_applied());
  EXPECT_TRUE(Do(Push(0, 0), Gradient(9)).reply().already_applied());
  Do(Push(0, 1, 1, 1), Gradient(4, 1));
  EXPECT_TRUE(Do(Push(0, 0), Gradient(9)).reply().already_applied());
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestClose(0, 0, 0)),
              HasSubstr("block 0 of micro-batch 1"));
  Do(Push(0, 1), Floats({3, 3, 3, 3, 9, 9, 9, 9}));
  Do(TestClose(0, 0, 0));
  EXPECT_TRUE(Do(Push(0, 1), Gradient(9)).reply().already_applied());
  EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), ElementsAre(-1, -1, -1, -1, -2, -2, -2, -2));
}

TEST_F(PartitionMicroBatchTest, ThereAreAsManyAsTheJobSays) {
  Open(OpenRequest(1, 2));
  EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, Push(0, 2), Gradient(1)),
              HasSubstr("micro_batch is 2; the job pushes 2 of each block"));
  for (const uint32_t micro_batches : {0, 1}) {
    Open(OpenRequest(1, micro_batches));
    EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, Push(0, 1), Gradient(1)),
                HasSubstr("the job pushes 1 of each block"));
  }
}

TEST_F(PartitionMicroBatchTest, ASlotWithoutGradientsCountsByItsClose) {
  Open(OpenRequest(2, 2));
  for (uint32_t m : {0, 1}) Do(Push(0, m), Gradient(2));
  v1::ExchangeRequest none = TestClose(1, 0, 0);
  none.mutable_close()->set_no_dense(true);
  Do(none);
  v1::ExchangeRequest close = TestClose(0, 0, 0);
  close.mutable_close()->set_examples(3);
  Do(close);
  // 1 - 4 / (3 + 1) examples.
  EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), Each(0));
}

TEST_F(PartitionMicroBatchTest, AnOverflowInOneLeavesOutTheOthersOfAllSlots) {
  for (const bool deterministic : {true, false}) {
    v1::OpenTablesRequest request = OpenRequest(2, 2);
    request.mutable_update()->set_deterministic(deterministic);
    Open(request);
    for (uint32_t slot : {0, 1}) {
      Do(Push(slot, 0), Gradient(5));
      Do(Push(slot, 1), Gradient(slot == 0 ? 5 : 0));
      Do(TestCloseWithScale(slot, 0, 0, slot == 1));
    }
    EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), Each(1));
  }
}

}  // namespace
}  // namespace muster
