#include "worker/strategy/servers/served_loss_scale.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Owner = ServedLossScale::Owner;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class ServedLossScaleTest : public ::testing::Test {
 protected:
  ServedLossScaleTest() {
    compute_.set_type(v1::ComputeSpec::F16);
    compute_.set_loss_scale_window(2);
    tensors_[0].name = "w";
  }

  ServedLossScale Make(Owner owner) {
    return {
        LossScaling(compute_, {.slot = 1,
                               .log = [this](absl::string_view line) { log_.emplace_back(line); }}),
        owner};
  }
  absl::StatusOr<StepEnd> Take(ServedLossScale& scale, uint64_t clock, float gradient) {
    gradient_ = gradient;
    absl::Span<float> span(&gradient_, 1);
    const TensorSpec* const overflowed = scale.scaling().Divide(tensors_, {&span, 1});
    return scale.TakeGradients(clock, overflowed);
  }
  static v1::ClosingLossScale Word(const ServedLossScale& scale) {
    v1::CloseClock close;
    scale.AddTo(close);
    return close.loss_scale();
  }
  static v1::ExchangeReply Reply(uint64_t slowest, float scale, uint32_t steps, bool left_out) {
    v1::ExchangeReply reply;
    reply.set_slowest_clock(slowest);
    reply.mutable_loss_scale()->mutable_value()->set_scale(scale);
    reply.mutable_loss_scale()->mutable_value()->set_steps(steps);
    reply.mutable_loss_scale()->set_left_out(left_out);
    return reply;
  }

  v1::ComputeSpec compute_;
  std::vector<TensorSpec> tensors_ = std::vector<TensorSpec>(1);
  float gradient_ = 0;
  std::vector<std::string> log_;
};

TEST_F(ServedLossScaleTest, TheGroupDecidesAndIsFollowed) {
  ServedLossScale scale = Make(Owner::kGroup);
  EXPECT_EQ(scale.of_slot(), absl::nullopt) << "servers know it";
  EXPECT_EQ(*Take(scale, 0, 8192), StepEnd::kFinite);
  EXPECT_EQ(gradient_, 2) << "divided";
  v1::ClosingLossScale word = Word(scale);
  EXPECT_FALSE(word.overflowed());
  EXPECT_EQ(word.if_finite().scale(), 4096);
  EXPECT_EQ(word.if_finite().steps(), 1);
  EXPECT_EQ(word.if_overflowed().scale(), 2048);
  EXPECT_EQ(word.if_overflowed().steps(), 0);
  EXPECT_EQ(scale.scaling().state().steps, 0) << "others have yet to say";

  // Another slot's gradients overflowed.
  scale.TakeReply(1, Reply(1, 2048, 0, true));
  scale.TakeReply(1, Reply(1, 2048, 0, true));
  EXPECT_EQ(scale.scaling().scale(), 2048);
  EXPECT_THAT(log_, ElementsAre("slot 1: gradients of step 1 overflow at a loss scale of 4096 and "
                                "are left out (1 such steps so far); it is 2048 from now on"));
  // This one's do.
  EXPECT_EQ(*Take(scale, 1, kInfinity), StepEnd::kOverflowed);
  EXPECT_TRUE(Word(scale).overflowed());
  EXPECT_EQ(Word(scale).if_overflowed().scale(), 1024);
  EXPECT_EQ(log_.size(), 2);
  scale.TakeReply(2, Reply(2, 1024, 0, true));
  EXPECT_EQ(log_.size(), 2) << "it has told already";
  EXPECT_EQ(scale.scaling().scaler()->overflows(), 2);
  // Nobody's do, twice.
  for (const uint64_t clock : {2, 3}) {
    EXPECT_EQ(*Take(scale, clock, 0), StepEnd::kFinite);
    const v1::LossScale& after = Word(scale).if_finite();
    scale.TakeReply(clock + 1, Reply(clock + 1, after.scale(), after.steps(), false));
  }
  EXPECT_EQ(scale.scaling().scale(), 2048);
  EXPECT_EQ(log_.back(), "slot 1: the loss scale is 2048 after step 4");
}

TEST_F(ServedLossScaleTest, ATaskThatTakesASlotOverGoesOnWithTheGroupsScale) {
  ServedLossScale scale = Make(Owner::kGroup);
  // A partition has completed the clock that this slot repeats. The pass begins with what it tells.
  scale.TakeReply(7, Reply(8, 32, 0, true));
  EXPECT_EQ(scale.scaling().scale(), 64);
  EXPECT_THAT(log_, ElementsAre("slot 1 goes on with a loss scale of 64"));
  scale.TakeReply(7, Reply(7, 128, 1, false));
  EXPECT_EQ(scale.scaling().scale(), 64) << "a pass has one scale";
  // A decision there holds everywhere, and so does the scale after it.
  EXPECT_EQ(*Take(scale, 7, 128), StepEnd::kOverflowed);
  EXPECT_EQ(gradient_, 2) << "divided by the pass's scale";
  EXPECT_TRUE(Word(scale).overflowed());
  EXPECT_EQ(Word(scale).if_overflowed().scale(), 32);
  EXPECT_EQ(Word(scale).if_finite().scale(), 32);
  scale.TakeReply(8, Reply(8, 32, 0, true));
  EXPECT_EQ(scale.scaling().scale(), 32);

  ServedLossScale other = Make(Owner::kGroup);
  other.TakeReply(7, Reply(7, 64, 1, false));
  other.TakeReply(7, Reply(8, 128, 0, false));
  EXPECT_EQ(*Take(other, 7, kInfinity), StepEnd::kFinite) << "all that counts is in";
  EXPECT_FALSE(Word(other).overflowed());
  EXPECT_EQ(Word(other).if_finite().scale(), 128);
}

// Some partitions may have the former task's close already.
TEST_F(ServedLossScaleTest, ATaskThatTakesASlotOverSaysWhatItsFormerTaskHasSaid) {
  struct Case {
    bool closing, withdrawn;
    StepEnd if_finite, if_overflowed;
  };
  for (const Case& c : {Case{false, false, StepEnd::kFinite, StepEnd::kOverflowed},
                        Case{false, true, StepEnd::kOverflowed, StepEnd::kOverflowed},
                        Case{true, false, StepEnd::kFinite, StepEnd::kFinite},
                        Case{true, true, StepEnd::kOverflowed, StepEnd::kOverflowed}}) {
    for (const bool overflows : {false, true}) {
      SCOPED_TRACE(testing::Message() << c.closing << c.withdrawn << overflows);
      ServedLossScale scale = Make(Owner::kGroup);
      scale.TakeFormer({.closed = 7, .closing = c.closing, .withdrawn = c.withdrawn});
      // Ranks that begin before that repeat a clock that the slot has closed everywhere.
      const float gradient = overflows ? kInfinity : 0;
      const StepEnd mine = overflows ? StepEnd::kOverflowed : StepEnd::kFinite;
      scale.TakeReply(6, Reply(6, 64, 0, false));
      EXPECT_EQ(*Take(scale, 6, gradient), mine);
      scale.TakeReply(7, Reply(7, 64, 1, false));
      const StepEnd end = overflows ? c.if_overflowed : c.if_finite;
      EXPECT_EQ(*Take(scale, 7, gradient), end);
      EXPECT_EQ(Word(scale).overflowed(), end == StepEnd::kOverflowed);
      EXPECT_EQ(Word(scale).if_finite().scale(), 128);
      EXPECT_EQ(Word(scale).if_overflowed().scale(), 32);
      // The group's word says how the clock ended.
      scale.TakeReply(8, Reply(8, 128, 0, false));
      EXPECT_EQ(scale.scaling().scale(), 128);
      EXPECT_EQ(*Take(scale, 8, gradient), mine);
    }
  }
}

TEST_F(ServedLossScaleTest, RanksOfOneDataRankBeginAClockWithTheLeastScale) {
  ServedLossScale fresh = Make(Owner::kGroup);
  ServedLossScale behind = Make(Owner::kGroup), ahead = Make(Owner::kGroup);
  fresh.GoOnWith({.scale = 64, .steps = 1});
  behind.TakeReply(7, Reply(7, 32, 1, false));
  // A partition that has completed the clock does not tell how many steps the scale has stood.
  ahead.TakeReply(7, Reply(8, 64, 0, false));
  EXPECT_EQ(ahead.scaling().state(), (LossScale{.scale = 32, .steps = 0}));
  EXPECT_LT(behind.Offer(7), ahead.Offer(7));
  EXPECT_LT(ahead.Offer(7), fresh.Offer(7));
  const uint64_t least = behind.Offer(7);
  for (ServedLossScale* const scale : {&fresh, &behind, &ahead}) {
    scale->TakeLeast(least);
    EXPECT_EQ(scale->scaling().state(), (LossScale{.scale = 32, .steps = 1}));
  }
  // All are ahead.
  ahead.TakeLeast(ahead.Offer(7));
  EXPECT_EQ(ahead.scaling().state(), (LossScale{.scale = 32, .steps = 0}));
}

TEST_F(ServedLossScaleTest, ASlotOfItsOwnDecidesAlone) {
  ServedLossScale scale = Make(Owner::kSlot);
  EXPECT_EQ(*Take(scale, 0, kInfinity), StepEnd::kOverflowed);
  EXPECT_EQ(scale.of_slot()->scale, 2048);
  v1::CloseClock close;
  scale.AddTo(close);
  EXPECT_FALSE(close.has_loss_scale());
  scale.TakeReply(1, Reply(1, 64, 1, false));
  EXPECT_EQ(scale.of_slot()->scale, 2048);
}

TEST_F(ServedLossScaleTest, WithoutASmallerScaleTheJobHasDiverged) {
  for (const Owner owner : {Owner::kSlot, Owner::kGroup}) {
    ServedLossScale scale = Make(owner);
    scale.GoOnWith({.scale = 1, .steps = 0});
    const absl::Status status = Take(scale, 4, kInfinity).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(
        status.message(),
        HasSubstr("diverged at step 5: the gradient of w is not finite at a loss scale of 1"));
  }
  compute_.set_loss_scale(8);
  ServedLossScale fixed = Make(Owner::kGroup);
  EXPECT_EQ(*Take(fixed, 0, 16), StepEnd::kFinite);
  EXPECT_EQ(gradient_, 2);
  EXPECT_EQ(fixed.of_slot(), absl::nullopt);
  EXPECT_EQ(Take(fixed, 1, kInfinity).status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace muster
