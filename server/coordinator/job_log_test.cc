#include "server/coordinator/job_log.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(JobLogTest, ReadsFromAnyOffset) {
  JobLog log(100);
  log.Append("hello ");
  log.Append("world\n");
  for (uint64_t offset = 0; offset <= 12; ++offset) {
    const JobLog::Chunk chunk = log.Read(offset, 1000);
    EXPECT_EQ(chunk.offset, offset);
    EXPECT_EQ(chunk.text, std::string("hello world\n").substr(offset));
  }
  EXPECT_EQ(log.Read(3, 5).text, "lo wo");
}

TEST(JobLogTest, DropsTheOldestAndShowsTheGap) {
  JobLog log(10);
  EXPECT_THAT(log.Append("aaaa").dropped, IsEmpty());
  EXPECT_THAT(log.Append("bbbb").dropped, IsEmpty());
  EXPECT_THAT(log.Append("cccc").dropped, ElementsAre(0));
  const JobLog::Chunk chunk = log.Read(0, 1000);
  EXPECT_EQ(chunk.offset, 4);
  EXPECT_EQ(chunk.text, "bbbbcccc");
  EXPECT_EQ(log.end(), 12);
}

TEST(JobLogTest, KeepsTheEndOfALongText) {
  JobLog log(4);
  const JobLog::Change change = log.Append("0123456789");
  EXPECT_EQ(change.added.offset, 6);
  EXPECT_EQ(change.added.text, "6789");
  EXPECT_EQ(log.Read(0, 100).offset, 6);
  EXPECT_EQ(log.end(), 10);
}

TEST(JobLogTest, ReadsAcrossAGapInTwoSteps) {
  JobLog log(4);
  log.Append("ab");
  log.Append("0123456789");
  JobLog restored(100);
  restored.Restore({0, "ab"});
  restored.Restore({8, "cd"});
  EXPECT_EQ(restored.Read(0, 100).text, "ab");
  const JobLog::Chunk after = restored.Read(2, 100);
  EXPECT_EQ(after.offset, 8);
  EXPECT_EQ(after.text, "cd");
}

TEST(JobLogTest, GoesOnAfterARestore) {
  JobLog log(100);
  log.Restore({50, "x"});
  EXPECT_EQ(log.Append("y").added.offset, 51);
  EXPECT_EQ(log.Read(0, 100).text, "xy");
}

TEST(JobLogTest, EmptyLogReadsNothing) {
  EXPECT_EQ(JobLog(10).Read(0, 10).text, "");
  EXPECT_EQ(JobLog(10).Read(7, 10).text, "");
}

}  // namespace
}  // namespace muster
