#include "client/terminal/wait_changes.h"

#include "gtest/gtest.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

v1::JobStatus Waiting(v1::JobState state, const std::string& reason) {
  v1::JobStatus status;
  status.set_state(state);
  status.set_waiting_for(reason);
  return status;
}

TEST(WaitChangesTest, EachWaitIsToldOnce) {
  WaitChanges waits;
  const absl::Duration now = absl::Seconds(100);
  EXPECT_EQ(waits.Next(Waiting(v1::PENDING, "1 of 2 slots is free"), now), "1 of 2 slots is free");
  EXPECT_EQ(waits.Next(Waiting(v1::PENDING, "1 of 2 slots is free"), now), "");
  EXPECT_EQ(waits.Next(Waiting(v1::RUNNING, ""), now), "");
  EXPECT_EQ(waits.Next(Waiting(v1::RUNNING, "a disk\nis full"), now), "a disk\\nis full");
  EXPECT_EQ(waits.Next(Waiting(v1::RUNNING, ""), now), "");
  EXPECT_EQ(waits.Next(Waiting(v1::RECOVERING, "a disk\nis full"), now), "a disk\\nis full");
  EXPECT_EQ(waits.Next(Waiting(v1::FAILED, "left over"), now), "");
}

TEST(WaitChangesTest, AStartIsNoWaitUntilItLasts) {
  WaitChanges waits;
  EXPECT_EQ(waits.Next(Waiting(v1::PLACING, "slot 1"), absl::Seconds(10)), "");
  EXPECT_EQ(waits.Next(Waiting(v1::PLACING, "slot 1"), absl::Seconds(11)), "");
  EXPECT_EQ(waits.Next(Waiting(v1::PLACING, "slot 1"), absl::Seconds(12)), "slot 1");
  EXPECT_EQ(waits.Next(Waiting(v1::RUNNING, ""), absl::Seconds(13)), "");
  EXPECT_EQ(waits.Next(Waiting(v1::PLACING, "slot 0"), absl::Seconds(14)), "");
}

}  // namespace
}  // namespace muster
