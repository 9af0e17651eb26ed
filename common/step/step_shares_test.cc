#include "common/step/step_shares.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/adjustment.pb.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::Adjustment Decided(uint64_t clock, std::initializer_list<uint32_t> parts) {
  v1::Adjustment adjustment;
  adjustment.set_clock(clock);
  for (const uint32_t each : parts) adjustment.add_shares(each);
  return adjustment;
}

TEST(StepSharesTest, HoldUntilTheNext) {
  const StepShares shares = SharesOf({}, {Decided(4, {2, 1}), Decided(6, {}), Decided(9, {1, 3})});
  EXPECT_THAT(shares.At(3, 2), IsEmpty());
  EXPECT_THAT(shares.At(4, 2), ElementsAre(2, 1));
  EXPECT_THAT(shares.At(5, 2), ElementsAre(2, 1));
  EXPECT_THAT(shares.At(6, 2), IsEmpty());
  EXPECT_THAT(shares.At(1000, 2), ElementsAre(1, 3));
}

TEST(StepSharesTest, AreEqualForAnotherNumberOfDataRanks) {
  EXPECT_THAT(SharesOf({}, {Decided(0, {2, 1})}).At(7, 3), IsEmpty());
}

TEST(StepSharesTest, ThoseOfTheSpecificationReplaceWhatWasDecided) {
  v1::JobSpec spec;
  v1::ShareChange* change = spec.add_share_changes();
  change->set_step(5);
  change->add_shares(7);
  change->add_shares(1);
  const StepShares shares = SharesOf(spec, {Decided(2, {2, 1})});
  EXPECT_THAT(shares.At(4, 2), IsEmpty());
  EXPECT_THAT(shares.At(5, 2), ElementsAre(7, 1));
}

}  // namespace
}  // namespace muster
