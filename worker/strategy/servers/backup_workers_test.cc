// Steps that do not wait for the slowest workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "worker/strategy/servers/strategy_fixture.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kBackupUnits = 2;

class BackupWorkersTest : public StrategyFixture, public ::testing::Test {
 protected:
  BackupWorkersTest() : StrategyFixture(kBackupUnits) {
    spec_.mutable_update()->set_backup_workers(1);
  }

  void SetUp() override { Open(); }
  void Open() { ASSERT_EQ(Make(kPullWindowBytes, kPushWindowBytes), absl::OkStatus()); }

  // Makes the step up to its end, at which it is told whom the clock leaves out. Returns what
  // arrived.
  std::vector<std::string> Step(uint64_t clock, std::vector<uint32_t> left_out,
                                uint64_t fastest_clock, std::vector<size_t> answers) {
    PullAll(clock);
    EXPECT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
    for (int unit = kBackupUnits - 1; unit >= 0; --unit) {
      for (float& gradient : strategy_->gradients()[unit]) gradient = 1;
      EXPECT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
    }
    EXPECT_THAT(wire_.TakeArrived(), IsEmpty()) << "nothing is pushed before the clock is entered";
    wire_.set_left_out(std::move(left_out), fastest_clock);
    std::thread trainer([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
    for (const size_t expected : answers) {
      while (wire_.held() < expected) std::this_thread::yield();
      wire_.AnswerAll();
    }
    trainer.join();
    return wire_.TakeArrived();
  }
};

TEST_F(BackupWorkersTest, PushesOnceItHasEnteredTheClock) {
  EXPECT_THAT(Step(0, {3}, 0, {1, kBackupUnits + 1}),
              ElementsAre("enter 0", Push(1), Push(0), "close without 3"));
  EXPECT_EQ(strategy_->LeftOutUntil(), absl::nullopt);
  EXPECT_EQ(strategy_->closed(), 1);
}

TEST_F(BackupWorkersTest, ASlotThatIsLeftOutPushesNothingAndGoesOnAtTheNewestClock) {
  EXPECT_THAT(Step(0, {0}, 3, {1, 3}), ElementsAre("enter 0", "close of 0 without 0",
                                                   "close of 1 without 0", "close of 2 without 0"));
  EXPECT_EQ(strategy_->LeftOutUntil(), 3u);
  EXPECT_EQ(strategy_->closed(), 3);
  // The clock was decided, and nobody has closed it yet.
  EXPECT_THAT(Step(3, {0}, 3, {1, 1}), ElementsAre("enter 3", "close of 3 without 0"));
  EXPECT_EQ(strategy_->LeftOutUntil(), 4u);
  EXPECT_THAT(Step(4, {2}, 4, {1, kBackupUnits + 1}),
              ElementsAre("enter 4", Push(1), Push(0), "close without 2"));
  EXPECT_EQ(strategy_->LeftOutUntil(), absl::nullopt);
}

TEST_F(BackupWorkersTest, TheLowestSlotThatEnteredClips) {
  max_norm_ = 2;
  Open();
  wire_.set_norms(kBackupUnits + 1);
  EXPECT_THAT(Step(0, {3}, 0, {1, kBackupUnits + 1, 1, 1}),
              ElementsAre("enter 0", Push(1), Push(0), "close without 3", "norms", "scale 1"));
  EXPECT_THAT(Step(1, {0}, 0, {1, 1}), ElementsAre("enter 1", "close of 1 without 0"));
}

}  // namespace
}  // namespace muster
