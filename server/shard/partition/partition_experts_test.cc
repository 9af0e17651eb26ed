// Jobs whose slots share out experts: each pushes the blocks of its own experts, and all push those
// of everything else.
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

// Data ranks of one slot each, of which each two share out 4 experts: w has 2 rows of each. Block 0
// is b, which all have, block 1 are the experts of even slots, block 2 those of odd ones.
class PartitionExpertsTest : public PartitionTest {
 protected:
  static v1::OpenTablesRequest OpenRequest(uint32_t slots) {
    v1::OpenTablesRequest request = TestOpenRequest(slots);
    v1::TablesSchema& schema = *request.mutable_schema();
    schema.set_expert_ranks(2);
    Divide(v1::TensorPlacement::EXPERTS, 4, schema);
    return request;
  }

  // Pushes all blocks of the slot, and closes the clock.
  void PushAndClose(uint32_t slot, uint64_t clock, float common, float experts, uint64_t examples) {
    v1::ExchangeRequest push = TestDensePush(slot, clock, 0, 1);
    push.mutable_dense_push()->set_examples(examples);
    Do(push, Floats(std::vector<float>(2, common)));
    push = TestDensePush(slot, clock, 1 + slot % 2, 1);
    push.mutable_dense_push()->set_examples(examples);
    Do(push, Floats(std::vector<float>(4, experts)));
    v1::ExchangeRequest close = TestClose(slot, clock, 0);
    close.mutable_close()->set_examples(examples);
    Do(close);
  }

  std::vector<float> Pull(uint32_t slot, uint64_t clock) {
    return Do(TestDensePull(slot, clock, 0, 3)).floats();
  }
};

// An expert's gradient has parts of the tokens of all slots, so its mean is over all examples.
TEST_F(PartitionExpertsTest, AMeanIsOverTheExamplesOfAllSlots) {
  for (const bool deterministic : {true, false}) {
    v1::OpenTablesRequest request = OpenRequest(4);
    request.mutable_update()->set_deterministic(deterministic);
    Open(request);
    const uint64_t examples[] = {5, 1, 1, 1};
    for (const uint32_t slot : {3, 2, 1, 0}) {
      PushAndClose(slot, 0, 2, slot % 2 == 0 ? 8 : 16, examples[slot]);
    }
    // 1 - 4 · 2 / 8 examples, 1 - 2 · 8 / 8, and 1 - 2 · 16 / 8.
    EXPECT_THAT(Pull(1, 1), ElementsAre(0, 0, -1, -1, -1, -1, -3, -3, -3, -3));
  }
}

// They are added in order of the slots that have the experts: 1 + (1e8 - 1e8), not (1 + 1e8) - 1e8.
TEST_F(PartitionExpertsTest, SumsAreMadeInOrderOfTheSlots) {
  v1::OpenTablesRequest request = OpenRequest(6);
  request.mutable_update()->set_deterministic(true);
  Open(request);
  const float values[] = {1e8, -1e8, 1};
  for (const uint32_t slot : {5, 0, 4, 3, 2, 1}) {
    const float value = values[slot / 2];
    PushAndClose(slot, 0, slot % 2 == 0 ? value : 0, value, 1);
  }
  EXPECT_THAT(Pull(0, 1), Each(1.0f - 1.0f / 6));
}

TEST_F(PartitionExpertsTest, ASlotPushesItsOwnExperts) {
  Open(OpenRequest(4));
  EXPECT_THAT(
      Refusal(absl::StatusCode::kInvalidArgument, TestDensePush(2, 0, 2, 1),
              Floats(std::vector<float>(4))),
      HasSubstr("block 2 is pushed by slots of another rank of the model, not by those of 0 of 2"));
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestClose(3, 0, 0)),
              HasSubstr("with 0 of 2 pushes of dense blocks in; the first one missing is block 0"));
  Do(TestDensePush(3, 0, 0, 1), Floats(std::vector<float>(2)));
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestClose(3, 0, 0)),
              HasSubstr("with 1 of 2 pushes of dense blocks in; the first one missing is block 2"));
}

// The same holds of micro-batches.
TEST_F(PartitionExpertsTest, PushesOfMicroBatchesAreOneSum) {
  v1::OpenTablesRequest request = OpenRequest(2);
  request.set_pushed_micro_batches(2);
  request.mutable_update()->set_deterministic(true);
  Open(request);
  for (const uint32_t slot : {1, 0}) {
    for (uint32_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
      for (const uint32_t block : {0u, 1 + slot}) {
        v1::ExchangeRequest push = TestDensePush(slot, 0, block, 1);
        push.mutable_dense_push()->set_micro_batch(micro_batch);
        push.mutable_dense_push()->set_examples(1);
        Do(push, Floats(std::vector<float>(block == 0 ? 2 : 4, block == 0 ? 1 : 4)));
      }
    }
    v1::ExchangeRequest close = TestClose(slot, 0, 0);
    close.mutable_close()->set_examples(2);
    Do(close);
  }
  // 1 - 4 · 1 / 4 examples, and 1 - 2 · 4 / 4.
  EXPECT_THAT(Pull(0, 1), ElementsAre(0, 0, -1, -1, -1, -1, -1, -1, -1, -1));
}

TEST_F(PartitionExpertsTest, NormsCountEachExpertOnce) {
  v1::OpenTablesRequest request = OpenRequest(4);
  request.mutable_schema()->mutable_clipping()->set_by_global_norm(100);
  Open(request);
  for (uint32_t slot = 0; slot < 4; ++slot) PushAndClose(slot, 0, 2, 4, 1);
  // The mean gradient is 2; then the norm of the sparse table.
  EXPECT_THAT(Do(TestClip(0, 0, std::nullopt)).doubles(), ElementsAre(8, 16, 16, 0));
}

// A slot that has closed the clock computes it once more with the successor of another.
TEST_F(PartitionExpertsTest, ASlotThatRepeatsTheClockReadsItsValuesAgain) {
  Open(OpenRequest(2));
  for (uint32_t slot = 0; slot < 2; ++slot) PushAndClose(slot, 0, 1, 2, 1);
  EXPECT_THAT(Pull(0, 0), Each(1));
  EXPECT_TRUE(
      Do(TestDensePush(0, 0, 1, 1), Floats(std::vector<float>(4, 9))).reply().already_applied());
  EXPECT_TRUE(Do(TestClose(0, 0, 0)).reply().already_applied());
  EXPECT_THAT(Pull(1, 1), Each(0));
}

}  // namespace
}  // namespace muster
