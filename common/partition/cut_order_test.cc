#include "common/partition/cut_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster {
namespace {

TEST(CutOrderTest, ReadsWhatWasWritten) {
  for (const CutOrder::Step step :
       {CutOrder::Step::kWhole, CutOrder::Step::kTake, CutOrder::Step::kWrite}) {
    for (const absl::optional<uint64_t> base :
         {absl::optional<uint64_t>(), absl::optional<uint64_t>(0), absl::optional<uint64_t>(7)}) {
      for (const absl::optional<LossScale> scale :
           {absl::optional<LossScale>(), absl::make_optional(LossScale{0x1p24f, 0xffffffff})}) {
        const CutOrder given{.step = step, .base = base, .loss_scale = scale};
        const Payload payload = EncodeCutOrder(given);
        EXPECT_EQ(payload.size(), scale.has_value() ? 24 : 16);
        EXPECT_EQ(payload.size(), given.bytes());
        const absl::StatusOr<CutOrder> order = ReadCutOrder(payload);
        ASSERT_TRUE(order.ok()) << order.status();
        EXPECT_EQ(order->step, step);
        EXPECT_EQ(order->base, base);
        EXPECT_EQ(order->loss_scale, scale);
      }
    }
  }
}

TEST(CutOrderTest, NothingIsAWholeCut) {
  const absl::StatusOr<CutOrder> order = ReadCutOrder(Payload());
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(order->step, CutOrder::Step::kWhole);
  EXPECT_FALSE(order->base.has_value());
}

TEST(CutOrderTest, WhatFollowsIsNotItsBusiness) {
  const absl::StatusOr<CutOrder> order =
      ReadCutOrder(Payload::Of(std::vector<uint64_t>{1, 0, 0xffffffffffffffff}));
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(order->step, CutOrder::Step::kTake);
}

TEST(CutOrderTest, RefusesWhatIsNone) {
  EXPECT_TRUE(
      absl::IsInvalidArgument(ReadCutOrder(Payload::Of(std::vector<uint64_t>{1})).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(ReadCutOrder(Payload::Of(std::vector<uint64_t>{3, 0})).status()));
  // A loss scale that does not follow, and another mark.
  for (const uint64_t first : {uint64_t{1} << 32, uint64_t{2} << 32}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        ReadCutOrder(Payload::Of(std::vector<uint64_t>{first, 0})).status()));
  }
}

}  // namespace
}  // namespace muster
