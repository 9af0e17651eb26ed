#include "server/coordinator/job_log.h"

#include <string>

#include "common/text/utf8.h"
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

// "a" and characters of two, three and four bytes, many times.
std::string Characters(int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  return text;
}

TEST(JobLogTest, NeverCutsWithinACharacter) {
  const std::string text = Characters(20);
  JobLog log(1000);
  log.Append(text);
  for (uint64_t piece = 4; piece < 14; ++piece) {
    std::string read;
    while (read.size() < text.size()) {
      const JobLog::Chunk chunk = log.Read(read.size(), piece);
      ASSERT_EQ(chunk.offset, read.size());
      ASSERT_FALSE(chunk.text.empty());
      ASSERT_TRUE(IsUtf8(chunk.text)) << piece;
      read += chunk.text;
    }
    EXPECT_EQ(read, text);
  }
  // A reader may name any byte.
  for (uint64_t offset = 0; offset <= text.size(); ++offset) {
    const JobLog::Chunk chunk = log.Read(offset, 1000);
    EXPECT_TRUE(IsUtf8(chunk.text)) << offset;
    EXPECT_LT(chunk.offset - offset, 4);
    EXPECT_EQ(chunk.offset + chunk.text.size(), text.size());
  }
}

TEST(JobLogTest, TheEndThatIsKeptBeginsWithACharacter) {
  const std::string text = Characters(3);
  for (uint64_t most = 4; most < text.size(); ++most) {
    JobLog log(most);
    const JobLog::Change change = log.Append(text);
    EXPECT_TRUE(IsUtf8(change.added.text)) << most;
    EXPECT_EQ(change.added.offset + change.added.text.size(), text.size());
    EXPECT_EQ(log.Read(0, 100).text, change.added.text);
  }
}

TEST(JobLogTest, BytesOfAnOlderLogThatAreNoTextKeepTheirPlaces) {
  JobLog log(100);
  log.Restore({7,
               "\xa9"
               "ab\xe2\x82"});
  const JobLog::Chunk chunk = log.Read(0, 100);
  EXPECT_EQ(chunk.offset, 7);
  EXPECT_EQ(chunk.text, "?ab??");
}

TEST(JobLogTest, EmptyLogReadsNothing) {
  EXPECT_EQ(JobLog(10).Read(0, 10).text, "");
  EXPECT_EQ(JobLog(10).Read(7, 10).text, "");
}

}  // namespace
}  // namespace muster
