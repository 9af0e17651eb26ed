// Jobs whose slots are ranks of tensor groups, each of which pushes the blocks of its own rank, and
// context ranks of these, which push them all.
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

// Two data ranks of two tensor ranks each: slots 0 and 1, 2 and 3. The ranks divide w, and have b
// in common. Block 0 is the first half of w, block 1 is b, block 2 the second half of w; rank 0
// pushes the first two.
class PartitionTensorTest : public PartitionTest {
 protected:
  static v1::OpenTablesRequest OpenRequest() {
    v1::OpenTablesRequest request = TestOpenRequest(4);
    v1::TablesSchema& schema = *request.mutable_schema();
    schema.set_tensor_ranks(2);
    Divide(v1::TensorPlacement::SHARD, 8, schema);
    return request;
  }

  void Push(uint32_t slot, uint64_t clock, float value, uint64_t examples = 1) {
    const bool first = slot % 2 == 0;
    v1::ExchangeRequest push = TestDensePush(slot, clock, first ? 0 : 2, first ? 2 : 1);
    push.mutable_dense_push()->set_examples(examples);
    Do(push, Floats(std::vector<float>(first ? 6 : 4, value)));
  }

  void Close(uint32_t slot, uint64_t clock, uint64_t examples) {
    v1::ExchangeRequest close = TestClose(slot, clock, 0);
    close.mutable_close()->set_examples(slot % 2 == 0 ? examples : 0);
    Do(close);
  }

  std::vector<float> Pull(uint32_t slot, uint64_t clock) {
    return Do(TestDensePull(slot, clock, 0, 3)).floats();
  }
};

TEST_F(PartitionTensorTest, AClockIsOneUpdateOverTheDataRanks) {
  for (const bool deterministic : {true, false}) {
    v1::OpenTablesRequest request = OpenRequest();
    request.mutable_update()->set_deterministic(deterministic);
    Open(request);
    for (const uint32_t slot : {3, 2, 1, 0}) {
      const uint64_t examples = slot < 2 ? 3 : 1;
      Push(slot, 0, slot % 2 == 0 ? 2 : 8, examples);
      Close(slot, 0, examples);
    }
    // 1 - 2 · 2 / 4 examples, and 1 - 2 · 8 / 4.
    EXPECT_THAT(Pull(1, 1), ElementsAre(0, 0, 0, 0, 0, 0, -3, -3, -3, -3));
  }
}

// In order of data ranks, whatever the order of arrival: 1 + (1e8 - 1e8), not (1 + 1e8) - 1e8.
TEST_F(PartitionTensorTest, SumsAreMadeInOrderOfDataRanks) {
  v1::OpenTablesRequest request = OpenRequest();
  request.set_slots(6);
  request.mutable_update()->set_deterministic(true);
  Open(request);
  const float values[] = {1e8, -1e8, 1};
  for (const uint32_t data_rank : {2, 0, 1}) {
    for (const uint32_t tensor_rank : {0, 1}) {
      Push(2 * data_rank + tensor_rank, 0, values[data_rank]);
      Close(2 * data_rank + tensor_rank, 0, 1);
    }
  }
  EXPECT_THAT(Pull(0, 1), Each(1.0f - 1.0f / 3));
}

TEST_F(PartitionTensorTest, EachRankPushesItsOwnBlocks) {
  Open(OpenRequest());
  EXPECT_THAT(
      Refusal(absl::StatusCode::kInvalidArgument, TestDensePush(1, 0, 1, 1),
              Floats(std::vector<float>(2))),
      HasSubstr("block 1 is pushed by slots of another rank of the model, not by those of 1 of"));
  EXPECT_THAT(
      Refusal(absl::StatusCode::kInvalidArgument, TestDensePush(2, 0, 1, 2),
              Floats(std::vector<float>(6))),
      HasSubstr("block 2 is pushed by slots of another rank of the model, not by those of 0 of"));
}

TEST_F(PartitionTensorTest, ASlotClosesOnceItsOwnBlocksAreIn) {
  Open(OpenRequest());
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestClose(3, 0, 0)),
              HasSubstr("with 0 of 1 pushes of dense blocks in; the first one missing is block 2"));
  Do(TestDensePush(2, 0, 0, 1), Floats(std::vector<float>(4)));
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestClose(2, 0, 0)),
              HasSubstr("with 1 of 2 pushes of dense blocks in; the first one missing is block 1"));
  Push(3, 0, 1);
  Close(3, 0, 1);
}

// A rank that has closed the clock computes it once more with a successor of another rank.
TEST_F(PartitionTensorTest, ASlotThatRepeatsTheClockReadsItsValuesAgain) {
  Open(OpenRequest());
  for (uint32_t slot = 0; slot < 4; ++slot) {
    Push(slot, 0, 1);
    Close(slot, 0, 1);
  }
  EXPECT_THAT(Pull(0, 0), Each(1));
  EXPECT_TRUE(
      Do(TestDensePush(0, 0, 0, 2), Floats(std::vector<float>(6, 9))).reply().already_applied());
  EXPECT_TRUE(Do(TestClose(0, 0, 0)).reply().already_applied());
  EXPECT_THAT(Pull(0, 1), Each(0));
}

TEST_F(PartitionTensorTest, NormsCountEachElementOnce) {
  v1::OpenTablesRequest request = OpenRequest();
  request.mutable_schema()->mutable_clipping()->set_by_global_norm(100);
  Open(request);
  for (uint32_t slot = 0; slot < 4; ++slot) {
    Push(slot, 0, 2);
    Close(slot, 0, 1);
  }
  // The mean gradient is 2; then the norm of the sparse table.
  EXPECT_THAT(Do(TestClip(0, 0, std::nullopt)).doubles(), ElementsAre(16, 8, 16, 0));
}

// Two context ranks of two tensor ranks each are one data rank, whose examples the first ones tell.
class PartitionContextTest : public PartitionTensorTest {
 protected:
  static v1::OpenTablesRequest OpenRequest() {
    v1::OpenTablesRequest request = PartitionTensorTest::OpenRequest();
    request.set_context_ranks(2);
    return request;
  }
  void PushAndClose(uint32_t slot, uint64_t clock, float value) {
    const uint64_t examples = slot < 2 ? 4 : 0;
    Push(slot, clock, value, examples);
    Close(slot, clock, examples);
  }
};

TEST_F(PartitionContextTest, AClockIsOneUpdateOverTheContextRanks) {
  for (const bool deterministic : {true, false}) {
    v1::OpenTablesRequest request = OpenRequest();
    request.mutable_update()->set_deterministic(deterministic);
    Open(request);
    for (const uint32_t slot : {3, 2, 1, 0}) PushAndClose(slot, 0, slot % 2 == 0 ? 2 : 8);
    // 1 - 2 · 2 / 4 examples, and 1 - 2 · 8 / 4.
    EXPECT_THAT(Pull(2, 1), ElementsAre(0, 0, 0, 0, 0, 0, -3, -3, -3, -3));
  }
}

// The other context rank has died after its close on this partition alone.
TEST_F(PartitionContextTest, ASlotThatRepeatsTheClockReadsItsValuesAgain) {
  v1::OpenTablesRequest request = TestOpenRequest(2);
  request.set_context_ranks(2);
  Open(request);
  for (uint32_t slot = 0; slot < 2; ++slot) {
    v1::ExchangeRequest push = TestDensePush(slot, 0, 0, 2);
    push.mutable_dense_push()->set_examples(slot == 0 ? 1 : 0);
    Do(push, Floats(std::vector<float>(8, 1)));
    v1::ExchangeRequest close = TestClose(slot, 0, 0);
    close.mutable_close()->set_examples(slot == 0 ? 1 : 0);
    Do(close);
  }
  EXPECT_THAT(Do(TestDensePull(0, 0, 0, 2)).floats(), Each(1));
  EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), Each(-1));
}

}  // namespace
}  // namespace muster
