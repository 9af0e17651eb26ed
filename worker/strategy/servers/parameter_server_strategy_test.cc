// Tests of what goes over the wire when: pulls and pushes overlap with the steps' arithmetic.
#include "worker/strategy/servers/parameter_server_strategy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/strategy/servers/strategy_fixture.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Ne;
using ::testing::SizeIs;

constexpr int kUnits = 3;

class ParameterServerStrategyTest : public StrategyFixture,
                                    public ::testing::TestWithParam<v1::UpdateSpec::WireType> {
 protected:
  ParameterServerStrategyTest() : StrategyFixture(kUnits) {
    spec_.mutable_update()->set_wire(GetParam());
    MakeStrategy(kPullWindowBytes, kPushWindowBytes);
  }

  void MakeStrategy(uint64_t pull_window_bytes, uint64_t push_window_bytes) {
    ASSERT_EQ(Make(pull_window_bytes, push_window_bytes), absl::OkStatus());
  }
};

TEST_P(ParameterServerStrategyTest, PullsComeFirstUnitFirstAndForwardWaitsForItsUnitAlone) {
  ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 0", "pull 1", "pull 2"));
  // Later units' answers are still to come.
  for (int unit = 0; unit < kUnits; ++unit) {
    wire_.AnswerOne();
    EXPECT_EQ(strategy_->Acquire(unit, Direction::kForward), absl::OkStatus());
    EXPECT_EQ(wire_.held(), kUnits - 1 - unit);
  }
  // And not before its own.
  ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  absl::Notification forward;
  std::thread trainer([&] {
    EXPECT_EQ(strategy_->Acquire(0, Direction::kForward), absl::OkStatus());
    forward.Notify();
  });
  EXPECT_FALSE(forward.WaitForNotificationWithTimeout(absl::Milliseconds(20)));
  wire_.AnswerOne();
  trainer.join();
  EXPECT_EQ(wire_.held(), kUnits - 1);
  wire_.AnswerAll();
}

TEST_P(ParameterServerStrategyTest, AsksAsFarAsTheWindowAndForTheUnitThatIsNext) {
  MakeStrategy(2 * kElements * element_bytes(), kPushWindowBytes);
  for (int step = 0; step < 2; ++step) {
    ASSERT_EQ(strategy_->BeginStep(step), absl::OkStatus());
    EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 0", "pull 1"));
    wire_.AnswerAll();
    EXPECT_EQ(strategy_->Acquire(0, Direction::kForward), absl::OkStatus());
    EXPECT_THAT(wire_.TakeArrived(), IsEmpty());
    EXPECT_EQ(strategy_->Acquire(1, Direction::kForward), absl::OkStatus());
    EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 2"));
    // The same parameters once more, as for an evaluation.
    EXPECT_EQ(strategy_->Acquire(0, Direction::kForward), absl::OkStatus());
    EXPECT_THAT(wire_.TakeArrived(), IsEmpty());
    wire_.AnswerAll();
    EXPECT_EQ(strategy_->Acquire(2, Direction::kForward), absl::OkStatus());
  }

  MakeStrategy(0, kPushWindowBytes);
  ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 0"));
  wire_.AnswerAll();
  EXPECT_EQ(strategy_->Acquire(0, Direction::kForward), absl::OkStatus());
  EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 1"));
  wire_.AnswerAll();
}

TEST_P(ParameterServerStrategyTest, ABackwardBeforeAllParametersHaveComeIsRefused) {
  ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  for (int unit = 0; unit < kUnits; ++unit) {
    EXPECT_TRUE(absl::IsInternal(strategy_->BeforeBackward(4, SeriesPosition::kLast)));
    wire_.AnswerAll();
    ASSERT_EQ(strategy_->Acquire(unit, Direction::kForward), absl::OkStatus());
  }
  EXPECT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
}

TEST_P(ParameterServerStrategyTest, AUnitIsAcquiredWithWhatItsTensorsAreTiedTo) {
  ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  wire_.AnswerAll();
  ASSERT_EQ(strategy_->Acquire(1, Direction::kForward), absl::OkStatus());
  EXPECT_TRUE(absl::IsInternal(strategy_->BeforeBackward(4, SeriesPosition::kLast)));
  ASSERT_EQ(strategy_->Acquire(kUnits - 1, Direction::kForward), absl::OkStatus());
  // Unit 0's have come.
  EXPECT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
  EXPECT_EQ(strategy_->parameters().values[kUnits], strategy_->parameters().values[0]);
}

// A server that has not ended the last clock may still read what was pushed at it.
TEST_P(ParameterServerStrategyTest, ASynchronousBackwardOverOldParametersIsRefused) {
  for (const uint64_t behind : {1, 0}) {
    wire_.set_clocks_behind(behind);
    PullAll(3);
    EXPECT_EQ(absl::IsInternal(strategy_->BeforeBackward(4, SeriesPosition::kLast)), behind > 0);
  }
}

TEST_P(ParameterServerStrategyTest, PushesLeaveAsUnitsFinishBackward) {
  PullAll(0);
  ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kMoreFollow), absl::OkStatus());
  EXPECT_EQ(strategy_->GradientStore(0), Accumulation::kWrite);
  for (int unit = kUnits - 1; unit >= 0; --unit) {
    ASSERT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
  }
  // The step's gradients are not complete yet.
  EXPECT_THAT(wire_.TakeArrived(), IsEmpty());
  ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
  EXPECT_EQ(strategy_->GradientStore(0), Accumulation::kAdd);
  for (int unit = kUnits - 1; unit >= 0; --unit) {
    ASSERT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
    // Before earlier units have computed, and without an answer to what went before.
    EXPECT_THAT(wire_.TakeArrived(), ElementsAre(Push(unit)));
    EXPECT_EQ(wire_.held(), kUnits - unit);
  }
  std::thread trainer([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
  while (wire_.held() < kUnits + 1) std::this_thread::yield();
  EXPECT_THAT(wire_.TakeArrived(), ElementsAre("close"));
  wire_.AnswerAll();
  trainer.join();
}

TEST_P(ParameterServerStrategyTest, PushesWaitForAnswersBeyondTheWindow) {
  // Two units' pushes; and one unit's at least.
  for (const uint64_t units : {2, 0}) {
    MakeStrategy(kPullWindowBytes, units * kElements * element_bytes());
    const size_t most = std::max<size_t>(1, units);
    for (int step = 0; step < 2; ++step) {
      PullAll(step);
      ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
      EXPECT_EQ(strategy_->GradientStore(0), Accumulation::kWrite);
      wire_.TakeArrived();
      std::thread trainer([&] {
        for (int unit = kUnits - 1; unit >= 0; --unit) {
          EXPECT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
        }
      });
      for (size_t left = kUnits; left > 0; --left) {
        while (wire_.held() < std::min(most, left)) std::this_thread::yield();
        EXPECT_LE(wire_.held(), most);
        wire_.AnswerOne();
      }
      trainer.join();
      std::thread end([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
      while (wire_.held() < 1) std::this_thread::yield();
      wire_.AnswerAll();
      end.join();
      EXPECT_THAT(wire_.TakeArrived(), ElementsAre(Push(2), Push(1), Push(0), "close"));
    }
  }
}

// All of it leaves, so that the server misses nothing, and is nothing: not even what rounding of
// earlier steps owes.
TEST_P(ParameterServerStrategyTest, GradientsThatOverflowLeaveAsNothing) {
  spec_.mutable_compute()->set_type(v1::ComputeSpec::F16);
  MakeStrategy(kPullWindowBytes, kPushWindowBytes);
  for (const int step : {0, 1, 2}) {
    const bool overflows = step == 1;
    PullAll(0);
    ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
    for (int unit = 0; unit < kUnits; ++unit) {
      for (float& gradient : strategy_->gradients()[unit]) {
        gradient = 0.1f * strategy_->loss_scale();
      }
    }
    // That of the unit which backward comes to last.
    if (overflows) strategy_->gradients()[0][1] = NAN;
    for (int unit = kUnits - 1; unit >= 0; --unit) {
      EXPECT_THAT(wire_.TakeArrived(), IsEmpty()) << "before all were looked at";
      ASSERT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
    }
    std::thread trainer([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
    // The close leaves once all pushes are in.
    wire_.AnswerAll();
    while (wire_.held() < 1) std::this_thread::yield();
    if (overflows) {
      const std::string bytes = absl::StrCat(" of ", kElements * element_bytes(), " bytes");
      EXPECT_THAT(wire_.TakeArrived(), ElementsAre("nothing 2" + bytes, "nothing 1" + bytes,
                                                   "nothing 0" + bytes, "close of an overflow"));
    } else {
      EXPECT_THAT(wire_.TakeArrived(), ElementsAre(Push(2), Push(1), Push(0), "close"));
    }
    wire_.AnswerAll();
    trainer.join();
  }
}

// No clock that is left out has a norm, whichever slot overflowed.
TEST_P(ParameterServerStrategyTest, AClockThatIsLeftOutHasNoGradientNorm) {
  max_norm_ = 2;
  MakeStrategy(kPullWindowBytes, kPushWindowBytes);
  for (const bool left_out : {false, true, false}) {
    PullAll(0);
    ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
    for (int unit = kUnits - 1; unit >= 0; --unit) {
      ASSERT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
    }
    // One norm for each block, and one for the table.
    wire_.set_norms(left_out ? 0 : kUnits + 1);
    std::thread trainer([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
    for (const size_t answers : {kUnits + 1, 1, 1}) {
      while (wire_.held() < answers) std::this_thread::yield();
      wire_.AnswerAll();
    }
    trainer.join();
    EXPECT_THAT(wire_.TakeArrived(),
                ElementsAre(Push(2), Push(1), Push(0), "close", "norms", "scale 1"));
    EXPECT_EQ(strategy_->counters().gradient_norm.has_value(), !left_out);
  }
}

// Where another task of the slot had pushed the first step, what this one's rounding left belongs
// to nothing. Where its own push had to be sent again, it stays owed.
TEST_P(ParameterServerStrategyTest, WhatRoundingLeftGoesWithWhoPushedTheFirstStep) {
  for (const bool lost : {false, true}) {
    SCOPED_TRACE(lost);
    MakeStrategy(kPullWindowBytes, kPushWindowBytes);
    for (const uint64_t clock : {0, 1}) {
      wire_.set_already_applied(false);
      PullAll(clock);
      ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
      for (int unit = kUnits - 1; unit >= 0; --unit) {
        for (float& gradient : strategy_->gradients()[unit]) gradient = clock == 0 ? 0.1f : 0;
        ASSERT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
      }
      std::thread trainer([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
      while (wire_.held() < kUnits + 1) std::this_thread::yield();
      wire_.set_already_applied(clock == 0);
      if (lost && clock == 0) {
        wire_.LoseAll();
        while (wire_.held() < kUnits + 1) std::this_thread::yield();
      }
      wire_.AnswerAll();
      trainer.join();
    }
    if (lost && GetParam() != v1::UpdateSpec::F32) {
      EXPECT_THAT(wire_.last_push(), Contains(Ne(std::byte{0})));
    } else {
      EXPECT_THAT(wire_.last_push(), Each(std::byte{0}));
    }
  }
}

// As 16 bits, gradients so small would be 0, and what rounding left would count in the next step.
TEST_P(ParameterServerStrategyTest, GradientsWhoseSignsCountAreSentAsF32) {
  sign_rate_ = 0.5;
  MakeStrategy(kPullWindowBytes, kPushWindowBytes);
  PullAll(0);
  ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
  for (int unit = kUnits - 1; unit >= 0; --unit) {
    for (float& gradient : strategy_->gradients()[unit]) gradient = 1e-42f;
    ASSERT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
  }
  std::thread trainer([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
  while (wire_.held() < kUnits + 1) std::this_thread::yield();
  wire_.AnswerAll();
  trainer.join();
  EXPECT_THAT(wire_.TakeArrived(), ElementsAre(Push(2), Push(1), "push 0 of 32 bytes", "close"));
  std::vector<float> pushed(kElements);
  const std::vector<std::byte> bytes = wire_.last_push();
  ASSERT_EQ(bytes.size(), kElements * sizeof(float));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(pushed.data()));
  EXPECT_THAT(pushed, Each(1e-42f));
}

TEST_P(ParameterServerStrategyTest, RowsThatWereLookedUpAreReleasedBeforeTheNextHaveCome) {
  ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  wire_.AnswerAll();
  wire_.TakeArrived();
  MicroBatch micro_batch;
  micro_batch.sparse.resize(1);
  micro_batch.sparse[0].keys = {7, 8};
  ASSERT_EQ(strategy_->Prefetch(micro_batch), absl::OkStatus());
  ASSERT_THAT(wire_.TakeArrived(), ElementsAre("rows 1", "rows 1"));
  std::thread trainer([&] { EXPECT_EQ(strategy_->LookUp(micro_batch), absl::OkStatus()); });
  absl::Notification released;
  wire_.AnswerOne([&] { released.Notify(); });
  released.WaitForNotification();
  wire_.AnswerAll();
  trainer.join();
  EXPECT_THAT(micro_batch.sparse[0].rows, SizeIs(2 * kElements));
}

INSTANTIATE_TEST_SUITE_P(Types, ParameterServerStrategyTest,
                         ::testing::Values(v1::UpdateSpec::F32, v1::UpdateSpec::BF16,
                                           v1::UpdateSpec::F16),
                         [](const auto& info) {
                           return v1::UpdateSpec::WireType_Name(info.param);
                         });

}  // namespace
}  // namespace muster
