#include "client/terminal/progress_display.h"

#include <string>

#include "gtest/gtest.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

v1::JobStatus StatusIn(v1::JobState state, const std::string& waits) {
  v1::JobStatus status;
  status.set_state(state);
  status.set_waiting_for(waits);
  status.mutable_progress()->set_step(3);
  return status;
}

// Standard output is a file here.
TEST(ProgressDisplayTest, LinesOfAFileSayWhatAJobWaitsForAndAreNotRepeated) {
  testing::internal::CaptureStdout();
  ProgressDisplay display;
  for (int i = 0; i < 2; ++i) display.Show(StatusIn(v1::PENDING, "1 of 2 slots is free"));
  display.Show(StatusIn(v1::RUNNING, ""));
  for (int i = 0; i < 2; ++i) display.Show(StatusIn(v1::RUNNING, "the disk of server-0 is full"));
  display.Show(StatusIn(v1::RECOVERING, "the disk of server-0 is full"));
  for (int i = 0; i < 2; ++i) display.Show(StatusIn(v1::FAILED, ""));
  display.Finish();
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "PENDING    waiting to be placed\n"
            "waits: 1 of 2 slots is free\n"
            "RUNNING    step 3\n"
            "waits: the disk of server-0 is full\n"
            "RECOVERING step 3\n"
            "FAILED     step 3\n");
}

TEST(ProgressDisplayTest, StatusesAreNotRepeated) {
  int printed = 0;
  ProgressDisplay display([&printed](const v1::JobStatus&) { ++printed; });
  for (int i = 0; i < 2; ++i) display.Show(StatusIn(v1::SUCCEEDED, ""));
  EXPECT_EQ(printed, 1);
}

}  // namespace
}  // namespace muster
