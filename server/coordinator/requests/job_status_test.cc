#include "server/coordinator/requests/job_status.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr char kDied[] = "slot 0 died: it ended with status 1";
constexpr char kPrinted[] = "\nTraceback (most recent call last):\n  File \"train.py\"";

// A program's tasks may end and begin anew while the job goes on.
TEST(JobStatusTest, TheMessageOfAJobThatGoesOnIsOneLine) {
  v1::JobRecord record;
  record.set_state(v1::RUNNING);
  Job job(record, /*max_log_bytes=*/1000);
  job.events.emplace_back().set_text(std::string(kDied) + kPrinted);
  EXPECT_EQ(StatusOf(job, /*now_unix_ms=*/0).message(), kDied);
  job.record.set_last_rollback(std::string(kDied) + kPrinted);
  job.events.emplace_back().set_text("placed");
  EXPECT_EQ(StatusOf(job, /*now_unix_ms=*/0).message(),
            std::string("placed (went back before: ") + kDied + ")");
}

}  // namespace
}  // namespace muster
