#include "server/coordinator/job_log.h"

#include <map>
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
  EXPECT_EQ(change.last.offset, 6);
  EXPECT_EQ(change.last.text, "6789");
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
  log.Append("y");
  EXPECT_EQ(log.end(), 52);
  EXPECT_EQ(log.Read(0, 100).text, "xy");
}

TEST(JobLogTest, TextThatComesByteByByteIsKeptInFewChunks) {
  constexpr uint64_t kMost = 64 << 10;
  JobLog log(kMost);
  // What a store holds of it.
  std::map<uint64_t, std::string> stored;
  std::string text;
  for (int i = 0; i < 200'000; ++i) {
    const char c = static_cast<char>('a' + i % 26);
    text.push_back(c);
    const JobLog::Change change = log.Append(std::string(1, c));
    for (uint64_t offset : change.dropped) stored.erase(offset);
    stored[change.last.offset] = change.last.text;
    ASSERT_LE(stored.size(), 17u);
  }
  EXPECT_GT(stored.begin()->second.size(), 1000u);
  const JobLog::Chunk read = log.Read(0, 2 * kMost);
  EXPECT_GT(read.text.size(), kMost - 4096);
  EXPECT_EQ(read.text, text.substr(read.offset));
  JobLog restored(kMost);
  for (const auto& [offset, chunk] : stored) restored.Restore({offset, chunk});
  EXPECT_EQ(restored.Read(0, 2 * kMost).text, read.text);
  // Longer ones stay what they are.
  EXPECT_EQ(log.Append(std::string(5000, 'x')).last.text, std::string(5000, 'x'));
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
    EXPECT_TRUE(IsUtf8(change.last.text)) << most;
    EXPECT_EQ(change.last.offset + change.last.text.size(), text.size());
    EXPECT_EQ(log.Read(0, 100).text, change.last.text);
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
