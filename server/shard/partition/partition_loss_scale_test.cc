// The loss scale that the slots of an f16 job share under BSP.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/partition/partition_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

using PartitionLossScaleTest = PartitionTest;

TEST_F(PartitionLossScaleTest, AClockInWhichAnySlotOverflowedIsLeftOutForAll) {
  for (const bool deterministic : {true, false}) {
    for (const bool clips : {true, false}) {
      v1::OpenTablesRequest request = TestOpenRequest(2);
      request.mutable_update()->set_deterministic(deterministic);
      // Adagrad counts its steps.
      request.mutable_schema()->mutable_optimizer()->set_name("adagrad");
      if (clips) request.mutable_schema()->mutable_clipping()->set_by_global_norm(100);
      const auto train = [&](const std::vector<absl::optional<uint32_t>>& overflowed) {
        Open(request);
        uint64_t clock = 0;
        for (const absl::optional<uint32_t> slot : overflowed) {
          for (uint32_t s : {0, 1}) {
            PushAllDense(s, clock, 2);
            Do(TestSparsePush(s, clock, 0, 1), KeysAndRows({5}, {1, 1}));
            Do(TestCloseWithScale(s, clock, 1, slot == s));
          }
          if (clips) {
            // There are norms of two blocks and a table, but none for a clock that is left out.
            const size_t norms = slot.has_value() ? 0 : 3;
            EXPECT_EQ(Do(TestClip(0, clock, std::nullopt)).doubles().size(), norms);
            Do(TestClip(0, clock, 1));
            // A replacement task asks again.
            EXPECT_EQ(Do(TestClip(0, clock, std::nullopt)).doubles().size(), norms);
          }
          ++clock;
          const v1::GroupLossScale scale = Do(TestDensePull(0, clock, 0, 1)).reply().loss_scale();
          EXPECT_EQ(scale.left_out(), slot.has_value());
          EXPECT_EQ(scale.value().scale(), slot.has_value() ? 512 : 1024);
          EXPECT_EQ(scale.value().steps(), slot.has_value() ? 0 : clock);
        }
        std::vector<float> values = Do(TestDensePull(0, clock, 0, 2)).floats();
        const std::vector<float> rows =
            Do(TestSparsePull(0, clock, 2), KeysAndRows({5, 6}, {})).floats();
        values.insert(values.end(), rows.begin(), rows.end());
        return values;
      };
      const std::vector<float> two = train({absl::nullopt, absl::nullopt});
      EXPECT_EQ(train({absl::nullopt, 0, absl::nullopt}), two);
      EXPECT_EQ(train({1, absl::nullopt, 1, 0, absl::nullopt}), two);
      EXPECT_NE(train({absl::nullopt, absl::nullopt, absl::nullopt}), two);
    }
  }
}

TEST_F(PartitionLossScaleTest, AClockWithoutAWordOnTheLossScaleIsNotLeftOut) {
  Open(TestOpenRequest(1));
  PushAllDense(0, 0, 1);
  Do(TestCloseWithScale(0, 0, 0, true));
  EXPECT_TRUE(Do(TestDensePull(0, 1, 0, 1)).reply().loss_scale().left_out());
  PushAllDense(0, 1, 1);
  Do(TestClose(0, 1, 0));
  const v1::GroupLossScale scale = Do(TestDensePull(0, 2, 0, 1)).reply().loss_scale();
  EXPECT_FALSE(scale.left_out());
  EXPECT_EQ(scale.value().scale(), 512);
}

TEST_F(PartitionLossScaleTest, ATaskThatTakesOverLearnsOfWithdrawnGradients) {
  Open(TestOpenRequest(2));
  const auto push = [&](uint32_t slot, uint64_t clock, uint32_t block, bool withdraws) {
    v1::ExchangeRequest request = TestDensePush(slot, clock, block, 1);
    request.mutable_dense_push()->set_withdrawn(withdraws);
    Do(request, Floats({0, 0, 0, 0}));
  };
  // Returns whether the slot has withdrawn gradients of its open clock, and of the last one that it
  // closed.
  const auto withdrawn = [&](uint32_t slot) {
    const Partition::Entry entry = *partition_->EnterTask(slot, 1);
    return std::pair(entry.withdrawn, entry.closed_withdrawn);
  };
  push(0, 0, 0, false);
  EXPECT_EQ(withdrawn(0), std::pair(false, false));
  push(0, 0, 1, true);
  EXPECT_EQ(withdrawn(0), std::pair(true, false));
  EXPECT_EQ(withdrawn(1), std::pair(false, false)) << "of another slot";
  push(1, 0, 0, false);
  push(1, 0, 1, false);
  // A repeat is not entered again.
  push(1, 0, 1, true);
  EXPECT_EQ(withdrawn(1), std::pair(false, false));
  Do(TestCloseWithScale(0, 0, 0, true));
  EXPECT_EQ(withdrawn(0), std::pair(false, true));
  Do(TestCloseWithScale(1, 0, 0, false));
  EXPECT_EQ(withdrawn(1), std::pair(false, false));
  push(0, 1, 0, false);
  push(0, 1, 1, false);
  EXPECT_EQ(withdrawn(0), std::pair(false, true));
  // A close alone says it, too.
  Do(TestCloseWithScale(0, 1, 0, true));
  EXPECT_EQ(withdrawn(0), std::pair(false, true));
  PushAllDense(1, 1, 1);
  Do(TestCloseWithScale(1, 1, 0, false));
  PushAllDense(0, 2, 1);
  Do(TestCloseWithScale(0, 2, 0, false));
  EXPECT_EQ(withdrawn(0), std::pair(false, false)) << "no task repeats the clock before";
}

TEST_F(PartitionLossScaleTest, OfTheSlotsLossScalesTheLeastIsTheGroups) {
  Open(TestOpenRequest(2));
  EXPECT_FALSE(Do(TestDensePull(0, 0, 0, 1)).reply().has_loss_scale());
  PushAllDense(0, 0, 1);
  PushAllDense(1, 0, 1);
  Do(TestCloseWithScale(0, 0, 0, false));
  v1::ExchangeRequest less = TestCloseWithScale(1, 0, 0, false);
  less.mutable_close()->mutable_loss_scale()->mutable_if_finite()->set_scale(64);
  Do(less);
  EXPECT_EQ(Do(TestDensePull(0, 1, 0, 1)).reply().loss_scale().value().scale(), 64);
  // A repeat stands for nobody else.
  EXPECT_TRUE(Do(TestCloseWithScale(1, 0, 0, true)).reply().already_applied());
  EXPECT_FALSE(Do(TestDensePull(0, 1, 0, 1)).reply().loss_scale().left_out());
  PushAllDense(0, 1, 1);
  less.set_clock(1);
  less.set_slot(0);
  less.mutable_close()->mutable_loss_scale()->mutable_if_overflowed()->set_scale(0);
  EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, less), HasSubstr("loss scale is 0"));
}

}  // namespace
}  // namespace muster
