#include "server/coordinator/requests/report_interval.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/test_jobs.h"
#include "gtest/gtest.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

TEST(ReportIntervalTest, AllTasksTogetherReportAThousandTimesASecondButEachOnce) {
  EXPECT_EQ(ReportInterval(0), absl::Milliseconds(250));
  EXPECT_EQ(ReportInterval(250), absl::Milliseconds(250));
  EXPECT_EQ(ReportInterval(600), absl::Milliseconds(600));
  EXPECT_EQ(ReportInterval(1000), absl::Seconds(1));
  EXPECT_EQ(ReportInterval(10'000), absl::Seconds(1));
}

TEST(ReportIntervalTest, EachTaskIsToldTheIntervalOfAllTasksThatRun) {
  constexpr uint32_t kSlots = 400;
  SimulatedCluster cluster;
  cluster.AddWorker("w0", kSlots);
  v1::JobSpec large = AllReduceJob();
  large.set_workers(kSlots - 2);
  large.set_batch_size(kSlots);
  const std::string job = *cluster.Submit(large);
  ASSERT_EQ(cluster.Orders(job).size(), kSlots - 2);
  cluster.MeetAll(job);
  ASSERT_TRUE(cluster.Progress(*cluster.Order(job, 0), 1).ok());
  EXPECT_EQ(cluster.progress_reply.report_interval_ms(), kSlots - 2);

  const std::string small = *cluster.Submit(AllReduceJob());
  cluster.MeetAll(small);
  ASSERT_EQ(cluster.Orders(small).size(), 2);
  ASSERT_TRUE(cluster.Progress(*cluster.Order(job, 0), 2).ok());
  EXPECT_EQ(cluster.progress_reply.report_interval_ms(), kSlots);
  cluster.EndAll(job);
  ASSERT_TRUE(cluster.Progress(*cluster.Order(small, 0), 1).ok());
  EXPECT_EQ(cluster.progress_reply.report_interval_ms(), 250);
}

}  // namespace
}  // namespace muster
