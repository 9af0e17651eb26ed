#include "server/coordinator/job/goodput.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr int64_t kStarted = 1'000'000;

// A record of a job that began to run at kStarted.
v1::JobRecord Running() {
  v1::JobRecord record;
  record.set_state(v1::RUNNING);
  record.set_started_unix_ms(kStarted);
  record.set_state_since_unix_ms(kStarted);
  return record;
}

// Takes the record to a state so many seconds after kStarted.
void GoTo(v1::JobState state, int64_t second, v1::JobRecord& record) {
  const v1::JobRecord before = record;
  record.set_state(state);
  AddStoppedTime(before, kStarted + second * 1000, record);
}

void AddSlot(double training, double redone, v1::ProgressRecord& progress) {
  progress.add_training_seconds(training);
  progress.add_slots()->set_redone_seconds(redone);
}

v1::Goodput After(int64_t seconds, const v1::JobRecord& record,
                  const v1::ProgressRecord& progress) {
  return GoodputOf(record, progress, kStarted + seconds * 1000);
}

TEST(GoodputTest, ThePartsAddUpToTheTime) {
  v1::ProgressRecord progress;
  AddSlot(/*training=*/80, /*redone=*/10, progress);
  progress.mutable_slots(0)->set_redone_steps(3);
  progress.mutable_slots(0)->set_evaluation_seconds(4);
  progress.mutable_slots(0)->set_checkpoint_seconds(6);
  const v1::Goodput goodput = After(100, Running(), progress);
  EXPECT_DOUBLE_EQ(goodput.seconds(), 100);
  EXPECT_DOUBLE_EQ(goodput.productive_seconds(), 70);
  EXPECT_DOUBLE_EQ(goodput.redone_seconds(), 10);
  EXPECT_EQ(goodput.redone_steps(), 3);
  EXPECT_DOUBLE_EQ(goodput.evaluation_seconds(), 4);
  EXPECT_DOUBLE_EQ(goodput.checkpoint_seconds(), 6);
  EXPECT_DOUBLE_EQ(goodput.waiting_seconds(), 10);
}

TEST(GoodputTest, ASlotThatSmallerRoundsLeftOutDoesNotCount) {
  v1::ProgressRecord progress;
  AddSlot(/*training=*/20, /*redone=*/0, progress);
  AddSlot(/*training=*/90, /*redone=*/5, progress);
  EXPECT_DOUBLE_EQ(After(100, Running(), progress).productive_seconds(), 85);
}

// A task that waits for a server reports one long step once the server is back.
TEST(GoodputTest, TimeWithoutAServerIsNoProductiveStep) {
  v1::JobRecord record = Running();
  GoTo(v1::RECOVERING, 30, record);
  GoTo(v1::RUNNING, 50, record);
  v1::ProgressRecord progress;
  AddSlot(/*training=*/100, /*redone=*/0, progress);
  const v1::Goodput goodput = After(100, record, progress);
  EXPECT_DOUBLE_EQ(goodput.productive_seconds(), 80);
  EXPECT_DOUBLE_EQ(goodput.waiting_seconds(), 20);
}

TEST(GoodputTest, ALossThatLastsCountsUpToNow) {
  v1::JobRecord record = Running();
  GoTo(v1::RECOVERING, 30, record);
  v1::ProgressRecord progress;
  AddSlot(/*training=*/30, /*redone=*/0, progress);
  EXPECT_DOUBLE_EQ(After(75, record, progress).waiting_seconds(), 45);
}

TEST(GoodputTest, AfterTheEndTimeStandsStill) {
  v1::JobRecord record = Running();
  GoTo(v1::SUCCEEDED, 60, record);
  record.set_finished_unix_ms(kStarted + 60'000);
  v1::ProgressRecord progress;
  AddSlot(/*training=*/55, /*redone=*/0, progress);
  const v1::Goodput goodput = After(1000, record, progress);
  EXPECT_DOUBLE_EQ(goodput.seconds(), 60);
  EXPECT_DOUBLE_EQ(goodput.productive_seconds(), 55);
}

TEST(GoodputTest, AClockThatWasSetBackMakesNoTimeNegative) {
  v1::ProgressRecord progress;
  AddSlot(/*training=*/55, /*redone=*/60, progress);
  const v1::Goodput goodput = After(-10, Running(), progress);
  EXPECT_DOUBLE_EQ(goodput.seconds(), 0);
  EXPECT_DOUBLE_EQ(goodput.productive_seconds(), 0);
  EXPECT_DOUBLE_EQ(goodput.redone_seconds(), 0);
}

TEST(GoodputTest, TheQueueBeforeTheStartIsNotTheJobs) {
  v1::JobRecord record;
  record.set_state(v1::PENDING);
  GoTo(v1::PLACING, -50, record);
  GoTo(v1::RUNNING, 0, record);
  EXPECT_DOUBLE_EQ(record.stopped_seconds(), 0);
}

}  // namespace
}  // namespace muster
