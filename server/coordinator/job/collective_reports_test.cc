#include "server/coordinator/job/collective_reports.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

v1::ReportCollectivesRequest CallsReport(uint32_t slot, uint64_t first, int calls) {
  v1::ReportCollectivesRequest report;
  report.mutable_task()->set_slot(slot);
  for (int i = 0; i < calls; ++i) report.add_calls()->set_sequence(first + i);
  return report;
}

TEST(CollectiveReportsTest, ASlotIsWantedUntilItTold) {
  CollectiveReports reports;
  EXPECT_FALSE(reports.Wanted(0)) << "nobody asked";
  reports.Tell(CallsReport(0, 1, 1), 5);
  const uint64_t question = reports.Ask();
  EXPECT_TRUE(reports.Wanted(0)) << "what it told is old";
  reports.Tell(CallsReport(0, 2, 1), 6);
  EXPECT_FALSE(reports.Wanted(0));
  EXPECT_TRUE(reports.Wanted(1));
  EXPECT_TRUE(reports.HasTold(0, question));
  const uint64_t next = reports.Ask();
  EXPECT_TRUE(reports.HasTold(0, question));
  EXPECT_FALSE(reports.HasTold(0, next));
}

TEST(CollectiveReportsTest, KeepsTheLastCallsOfTheLastReport) {
  CollectiveReports reports;
  reports.Tell(CallsReport(3, 1, 5), 10);
  reports.Tell(CallsReport(1, 1, 2), 11);
  reports.Tell(CallsReport(3, 7, kMaxCollectiveRecords + 4), 12);
  const auto slots = reports.List();
  ASSERT_EQ(slots.size(), 2);
  EXPECT_EQ(slots[0].slot(), 1);
  EXPECT_EQ(slots[1].slot(), 3);
  EXPECT_EQ(slots[1].unix_ms(), 12);
  ASSERT_EQ(slots[1].calls_size(), kMaxCollectiveRecords);
  EXPECT_EQ(slots[1].calls(0).sequence(), 11) << "the oldest went";
}

}  // namespace
}  // namespace muster
