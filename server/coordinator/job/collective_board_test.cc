#include "server/coordinator/job/collective_board.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

v1::ReportCollectivesRequest Report(uint32_t slot, uint64_t first, int calls) {
  v1::ReportCollectivesRequest report;
  report.mutable_task()->set_slot(slot);
  for (int i = 0; i < calls; ++i) report.add_calls()->set_sequence(first + i);
  return report;
}

TEST(CollectiveBoardTest, ASlotIsWantedUntilItTold) {
  CollectiveBoard board;
  EXPECT_FALSE(board.Wanted(0)) << "nobody asked";
  board.Tell(Report(0, 1, 1), 5);
  const uint64_t question = board.Ask();
  EXPECT_TRUE(board.Wanted(0)) << "what it told is old";
  board.Tell(Report(0, 2, 1), 6);
  EXPECT_FALSE(board.Wanted(0));
  EXPECT_TRUE(board.Wanted(1));
  EXPECT_TRUE(board.HasTold(0, question));
  const uint64_t next = board.Ask();
  EXPECT_TRUE(board.HasTold(0, question));
  EXPECT_FALSE(board.HasTold(0, next));
}

TEST(CollectiveBoardTest, KeepsTheLastCallsOfTheLastReport) {
  CollectiveBoard board;
  board.Tell(Report(3, 1, 5), 10);
  board.Tell(Report(1, 1, 2), 11);
  board.Tell(Report(3, 7, kMaxCollectiveRecords + 4), 12);
  const auto slots = board.List();
  ASSERT_EQ(slots.size(), 2);
  EXPECT_EQ(slots[0].slot(), 1);
  EXPECT_EQ(slots[1].slot(), 3);
  EXPECT_EQ(slots[1].unix_ms(), 12);
  ASSERT_EQ(slots[1].calls_size(), kMaxCollectiveRecords);
  EXPECT_EQ(slots[1].calls(0).sequence(), 11) << "the oldest went";
}

}  // namespace
}  // namespace muster
