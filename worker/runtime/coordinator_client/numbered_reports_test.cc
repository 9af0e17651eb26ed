#include "worker/runtime/coordinator_client/numbered_reports.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

v1::ReportProgressRequest AtClock(uint64_t clock) {
  v1::ReportProgressRequest report;
  report.set_clock(clock);
  return report;
}

TEST(NumberedReportsTest, OneWithoutAnAnswerIsSentAgainBeforeLaterOnes) {
  FakeCoordinatorClient coordinator;
  coordinator.FailProgress({absl::OkStatus(), absl::UnavailableError("away")});
  v1::ReportProgressReply reply;
  reply.set_meet_after_round(7);
  coordinator.SetProgressReply(reply);
  std::vector<uint64_t> taken;
  const auto take = [&](const v1::ReportProgressReply& answer) {
    taken.push_back(answer.meet_after_round());
  };
  NumberedReports reports(coordinator);
  EXPECT_TRUE(reports.empty());
  reports.Add(AtClock(10));
  reports.Add(AtClock(20));
  EXPECT_TRUE(absl::IsUnavailable(reports.Send(take)));
  EXPECT_FALSE(reports.empty());
  EXPECT_THAT(taken, ElementsAre(7));
  reports.Add(AtClock(30));
  EXPECT_TRUE(reports.Send(take).ok());
  EXPECT_TRUE(reports.empty());
  EXPECT_THAT(taken, ElementsAre(7, 7, 7));
  // The fake keeps what it has answered.
  std::vector<uint64_t> clocks, numbers;
  for (const v1::ReportProgressRequest& sent : coordinator.progress()) {
    clocks.push_back(sent.clock());
    numbers.push_back(sent.number());
  }
  EXPECT_THAT(clocks, ElementsAre(10, 20, 30));
  EXPECT_THAT(numbers, ElementsAre(1, 2, 3));
}

TEST(NumberedReportsTest, AFencedTaskAndOneWhoseJobIsGoneMustEnd) {
  EXPECT_TRUE(TaskMustEnd(absl::AbortedError("fenced")));
  EXPECT_TRUE(TaskMustEnd(absl::NotFoundError("no such job")));
  EXPECT_FALSE(TaskMustEnd(absl::UnavailableError("away")));
  EXPECT_FALSE(TaskMustEnd(absl::OkStatus()));
}

}  // namespace
}  // namespace muster
