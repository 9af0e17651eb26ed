// Tests the wire under ZeRO stage 3, where a worker has memory only for units in flight.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/strategy/servers/strategy_fixture.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Units 1 and 3 share one place; unit 2 has the other; unit 0 stays.
constexpr int kUnitsInTurn = 4;

class UnitsInFlightTest : public StrategyFixture, public ::testing::Test {
 protected:
  UnitsInFlightTest() : StrategyFixture(kUnitsInTurn) {
    spec_.mutable_parallelism()->mutable_zero()->set_stage(3);
    spec_.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
    spec_.set_micro_batches(2);
  }

  void MakeStrategy() {
    ASSERT_EQ(Make(kPullWindowBytes, kPushWindowBytes), absl::OkStatus());
    ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  }

  // Acquires the unit, and answers its pulls at once. Returns what was sent for it.
  std::vector<std::string> Acquire(int unit, Direction direction) {
    wire_.AnswerAll();
    // Answers what it has to wait for.
    absl::Notification acquired;
    std::thread server([&] {
      while (!acquired.HasBeenNotified()) {
        wire_.AnswerAll();
        std::this_thread::yield();
      }
    });
    EXPECT_EQ(strategy_->Acquire(unit, direction), absl::OkStatus());
    acquired.Notify();
    server.join();
    strategy_->Release(unit, direction);
    return wire_.TakeArrived();
  }

  // Runs a micro-batch up to its last unit.
  void Forward(SeriesPosition position) {
    for (int unit = 0; unit < kUnitsInTurn; ++unit) {
      Acquire(unit, unit + 1 < kUnitsInTurn ? Direction::kForward : Direction::kBackward);
    }
    ASSERT_EQ(strategy_->BeforeBackward(4, position), absl::OkStatus());
  }

  void Fill(int unit, float value) {
    for (float& gradient : strategy_->gradients()[unit]) gradient = value;
  }
  // Tells that the unit's gradients are ready. Returns what was sent of them.
  std::vector<std::string> Ready(int unit) {
    EXPECT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
    return wire_.TakeArrived();
  }

  std::vector<std::string> EndStep() {
    std::thread trainer([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
    std::vector<std::string> arrived;
    while (true) {
      for (std::string& message : wire_.TakeArrived()) arrived.push_back(std::move(message));
      if (!arrived.empty() && absl::StrContains(arrived.back(), "close")) break;
      wire_.AnswerAll();
      std::this_thread::yield();
    }
    wire_.AnswerAll();
    trainer.join();
    return arrived;
  }
};

TEST_F(UnitsInFlightTest, TheServersAreToldHowManyMicroBatchesCome) {
  MakeStrategy();
  EXPECT_EQ(opened_.pushed_micro_batches(), 2u);
  spec_.clear_micro_batches();
  MakeStrategy();
  EXPECT_EQ(opened_.pushed_micro_batches(), 1u) << "from memory that is used again, too";
  spec_.mutable_parallelism()->clear_zero();
  MakeStrategy();
  EXPECT_EQ(opened_.pushed_micro_batches(), 0u);
}

TEST_F(UnitsInFlightTest, PlacesAreShared) {
  MakeStrategy();
  const ModelParameters parameters = strategy_->parameters();
  EXPECT_EQ(parameters.values[3].data(), parameters.values[1].data());
  EXPECT_EQ(strategy_->gradients()[3].data(), strategy_->gradients()[1].data());
  for (const int unit : {0, 1}) {
    EXPECT_NE(parameters.values[2].data(), parameters.values[unit].data());
    EXPECT_NE(strategy_->gradients()[2].data(), strategy_->gradients()[unit].data());
  }
  EXPECT_EQ(parameters.values[kUnitsInTurn].data(), parameters.values[0].data()) << "tied";
  EXPECT_EQ(strategy_->gradients()[kUnitsInTurn].data(), strategy_->gradients()[0].data())
      << "tied";
}

// Checks the order of a step of two micro-batches.
TEST_F(UnitsInFlightTest, UnitsArePulledBeforeEachUseUnlessTheyAreThereStillAndPushedAfterIt) {
  MakeStrategy();
  EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 0"));
  for (const bool last : {false, true}) {
    const std::string micro_batch = last ? ", micro-batch 1" : "";
    using Direction::kBackward;
    using Direction::kForward;
    // Both have been there since backward.
    const std::vector<std::string> none;
    EXPECT_EQ(Acquire(0, kForward), last ? none : std::vector<std::string>{"pull 1"});
    EXPECT_EQ(Acquire(1, kForward), last ? none : std::vector<std::string>{"pull 2"});
    EXPECT_THAT(Acquire(2, kForward), ElementsAre("pull 3"));
    EXPECT_THAT(Acquire(3, kBackward), IsEmpty()) << "both have their places";
    ASSERT_EQ(
        strategy_->BeforeBackward(4, last ? SeriesPosition::kLast : SeriesPosition::kMoreFollow),
        absl::OkStatus());
    for (int unit = 0; unit < kUnitsInTurn; ++unit) {
      EXPECT_EQ(strategy_->GradientStore(unit), Accumulation::kWrite);
    }
    EXPECT_THAT(Ready(3), ElementsAre(Push(3) + micro_batch));
    EXPECT_THAT(Acquire(2, kBackward), ElementsAre("pull 1")) << "where unit 3 was";
    EXPECT_THAT(Ready(2), ElementsAre(Push(2) + micro_batch));
    EXPECT_THAT(Acquire(1, kBackward), IsEmpty()) << "unit 0 stays";
    EXPECT_THAT(Ready(1), ElementsAre(Push(1) + micro_batch));
    EXPECT_THAT(Acquire(0, kBackward), IsEmpty());
    EXPECT_THAT(Ready(0), ElementsAre(Push(0) + micro_batch)) << "with what is tied to it";
  }
  EXPECT_THAT(EndStep(), ElementsAre("close"));
  ASSERT_EQ(strategy_->BeginStep(1), absl::OkStatus());
  EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 0")) << "of another clock";
}

TEST_F(UnitsInFlightTest, PassesOfAnEvaluationPullAgain) {
  MakeStrategy();
  wire_.TakeArrived();
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<std::string> pulled;
    for (int unit = 0; unit < kUnitsInTurn; ++unit) {
      for (std::string& message : Acquire(unit, Direction::kForward)) {
        pulled.push_back(std::move(message));
      }
    }
    if (pass == 0) {
      EXPECT_THAT(pulled, ElementsAre("pull 1", "pull 2", "pull 3"));
    } else {
      EXPECT_THAT(pulled, ElementsAre("pull 1", "pull 3")) << "unit 2 is there still";
    }
  }
}

// A unit's memory is free once the pushes of the unit that had it before are acknowledged.
TEST_F(UnitsInFlightTest, AUnitWaitsForTheGradientsThatHaveItsPlace) {
  MakeStrategy();
  Forward(SeriesPosition::kLast);
  Fill(3, 3);
  EXPECT_THAT(Ready(3), ElementsAre(Push(3)));
  // The only held request is the push of unit 3.
  ASSERT_EQ(wire_.held(), 1u);
  EXPECT_EQ(strategy_->Acquire(2, Direction::kBackward), absl::OkStatus()) << "has another place";
  EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 1"));
  EXPECT_THAT(Ready(2), ElementsAre(Push(2)));
  absl::Notification free;
  std::thread trainer([&] {
    EXPECT_EQ(strategy_->Acquire(1, Direction::kBackward), absl::OkStatus());
    free.Notify();
  });
  wire_.AnswerNewestPull();
  EXPECT_FALSE(free.WaitForNotificationWithTimeout(absl::Milliseconds(20)));
  wire_.AnswerOne();
  trainer.join();
  EXPECT_EQ(wire_.held(), 1u) << "the push of unit 2";
  wire_.AnswerAll();
}

// Gradients that were pushed before the overflow are already sent, and finite.
TEST_F(UnitsInFlightTest, AnOverflowTakesTheRestOfTheStepBack) {
  spec_.mutable_compute()->set_type(v1::ComputeSpec::F16);
  MakeStrategy();
  for (const bool overflows : {true, false}) {
    SCOPED_TRACE(overflows);
    for (const uint32_t micro_batch : {0, 1}) {
      Forward(micro_batch == 0 ? SeriesPosition::kMoreFollow : SeriesPosition::kLast);
      for (int unit = kUnitsInTurn - 1; unit >= 0; --unit) {
        if (unit + 1 < kUnitsInTurn) Acquire(unit, Direction::kBackward);
        Fill(unit, 0.5f * strategy_->loss_scale());
        const bool first = overflows && micro_batch == 0 && unit == 1;
        if (first) strategy_->gradients()[unit][3] = NAN;
        const bool out = !overflows || (micro_batch == 0 && unit > 1);
        EXPECT_THAT(Ready(unit), ElementsAre(StartsWith(out ? "push" : "nothing")));
      }
    }
    EXPECT_THAT(EndStep(), ElementsAre(overflows ? "close of an overflow" : "close"));
    if (!overflows) {
      // Gradients are divided by the scale.
      const float half = 0.5f;
      std::vector<std::byte> expected(sizeof(half));
      std::memcpy(expected.data(), &half, sizeof(half));
      EXPECT_EQ(std::memcmp(wire_.last_push().data(), expected.data(), sizeof(half)), 0);
    }
    ASSERT_EQ(strategy_->BeginStep(1), absl::OkStatus());
  }
}

// What a former task of the slot had withdrawn stands as zeros, in the task's first clock.
TEST_F(UnitsInFlightTest, AnOverflowOfAFormerTaskLeavesTheClockOut) {
  spec_.mutable_compute()->set_type(v1::ComputeSpec::F16);
  withdrawn_ = true;
  MakeStrategy();
  for (const uint64_t clock : {0, 1}) {
    for (const uint32_t micro_batch : {0, 1}) {
      Forward(micro_batch == 0 ? SeriesPosition::kMoreFollow : SeriesPosition::kLast);
      for (int unit = kUnitsInTurn - 1; unit >= 0; --unit) {
        if (unit + 1 < kUnitsInTurn) Acquire(unit, Direction::kBackward);
        Fill(unit, 1);
        EXPECT_THAT(Ready(unit), ElementsAre(StartsWith("push")));
      }
    }
    EXPECT_THAT(EndStep(), ElementsAre(clock == 0 ? "close of an overflow" : "close"));
    ASSERT_EQ(strategy_->BeginStep(clock + 1), absl::OkStatus());
  }
}

TEST_F(UnitsInFlightTest, RoundingOnTheWireIsRefused) {
  spec_.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  const absl::Status refused = Make(kPullWindowBytes, kPushWindowBytes);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("under ZeRO stage 3"));
}

}  // namespace
}  // namespace muster
