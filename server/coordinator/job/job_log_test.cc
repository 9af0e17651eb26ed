#include "server/coordinator/job/job_log.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(JobLogTest, ReadsFromAnyOffset) {
  JobLog log(100);
  log.Append("hello ", {});
  log.Append("world\n", {});
  for (uint64_t offset = 0; offset <= 12; ++offset) {
    const JobLog::Excerpt excerpt = log.Read(offset, 1000);
    EXPECT_EQ(excerpt.offset, offset);
    EXPECT_EQ(excerpt.text, std::string("hello world\n").substr(offset));
  }
  EXPECT_EQ(log.Read(3, 5).text, "lo wo");
}

TEST(JobLogTest, DropsTheOldestAndShowsTheGap) {
  JobLog log(10);
  EXPECT_THAT(log.Append("aaaa", {}).dropped, IsEmpty());
  EXPECT_THAT(log.Append("bbbb", {}).dropped, IsEmpty());
  EXPECT_THAT(log.Append("cccc", {}).dropped, ElementsAre(0));
  const JobLog::Excerpt excerpt = log.Read(0, 1000);
  EXPECT_EQ(excerpt.offset, 4);
  EXPECT_EQ(excerpt.text, "bbbbcccc");
  EXPECT_EQ(excerpt.missing, 4);
  EXPECT_EQ(excerpt.next, 12);
  EXPECT_EQ(log.end(), 12);
  // Whoever begins after it misses nothing.
  EXPECT_EQ(log.Read(6, 1000).missing, 0);
}

TEST(JobLogTest, KeepsTheEndOfALongText) {
  JobLog log(4);
  const JobLog::Change change = log.Append("0123456789", {});
  EXPECT_EQ(change.last.offset, 6);
  EXPECT_EQ(change.last.text, "6789");
  EXPECT_EQ(log.Read(0, 100).offset, 6);
  EXPECT_EQ(log.end(), 10);
}

TEST(JobLogTest, ReadsAcrossAGapInTwoSteps) {
  JobLog log(4);
  log.Append("ab", {});
  log.Append("0123456789", {});
  JobLog restored(100);
  restored.Restore({.offset = 0, .text = "ab"});
  restored.Restore({.offset = 8, .text = "cd"});
  EXPECT_EQ(restored.Read(0, 100).text, "ab");
  const JobLog::Excerpt after = restored.Read(2, 100);
  EXPECT_EQ(after.offset, 8);
  EXPECT_EQ(after.text, "cd");
  EXPECT_EQ(after.missing, 6);
}

TEST(JobLogTest, GoesOnAfterARestore) {
  JobLog log(100);
  log.Restore({.offset = 50, .text = "x"});
  log.Append("y", {});
  EXPECT_EQ(log.end(), 52);
  EXPECT_EQ(log.Read(0, 100).text, "xy");
}

TEST(JobLogTest, TextThatComesByteByByteIsKeptInFewLogChunks) {
  constexpr uint64_t kMost = 64 << 10;
  JobLog log(kMost);
  // What a store holds of it.
  std::map<uint64_t, std::string> stored;
  std::string text;
  for (int i = 0; i < 200'000; ++i) {
    const char c = static_cast<char>('a' + i % 26);
    text.push_back(c);
    const JobLog::Change change = log.Append(std::string(1, c), {});
    for (uint64_t offset : change.dropped) stored.erase(offset);
    stored[change.last.offset] = change.last.text;
    ASSERT_LE(stored.size(), 17u);
  }
  EXPECT_GT(stored.begin()->second.size(), 1000u);
  const JobLog::Excerpt read = log.Read(0, 2 * kMost);
  EXPECT_GT(read.text.size(), kMost - 4096);
  EXPECT_EQ(read.text, text.substr(read.offset));
  JobLog restored(kMost);
  for (const auto& [offset, kept] : stored) restored.Restore({.offset = offset, .text = kept});
  EXPECT_EQ(restored.Read(0, 2 * kMost).text, read.text);
  // Longer ones stay what they are.
  EXPECT_EQ(log.Append(std::string(5000, 'x'), {}).last.text, std::string(5000, 'x'));
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
  log.Append(text, {});
  for (uint64_t bytes = 4; bytes < 14; ++bytes) {
    std::string read;
    while (read.size() < text.size()) {
      const JobLog::Excerpt excerpt = log.Read(read.size(), bytes);
      ASSERT_EQ(excerpt.offset, read.size());
      ASSERT_FALSE(excerpt.text.empty());
      ASSERT_TRUE(IsUtf8(excerpt.text)) << bytes;
      read += excerpt.text;
    }
    EXPECT_EQ(read, text);
  }
  // A reader may name any byte.
  for (uint64_t offset = 0; offset <= text.size(); ++offset) {
    const JobLog::Excerpt excerpt = log.Read(offset, 1000);
    EXPECT_TRUE(IsUtf8(excerpt.text)) << offset;
    EXPECT_LT(excerpt.offset - offset, 4);
    EXPECT_EQ(excerpt.offset + excerpt.text.size(), text.size());
  }
}

TEST(JobLogTest, TheEndThatIsKeptBeginsWithACharacter) {
  const std::string text = Characters(3);
  for (uint64_t most = 4; most < text.size(); ++most) {
    JobLog log(most);
    const JobLog::Change change = log.Append(text, {});
    EXPECT_TRUE(IsUtf8(change.last.text)) << most;
    EXPECT_EQ(change.last.offset + change.last.text.size(), text.size());
    EXPECT_EQ(log.Read(0, 100).text, change.last.text);
  }
}

TEST(JobLogTest, BytesOfAnOlderLogThatAreNoTextKeepTheirPlaces) {
  JobLog log(100);
  log.Restore({.offset = 7,
               .text = "\xa9"
                       "ab\xe2\x82"});
  const JobLog::Excerpt excerpt = log.Read(0, 100);
  EXPECT_EQ(excerpt.offset, 7);
  EXPECT_EQ(excerpt.text, "?ab??");
}

// Two slots' tasks, by turns, a line each in two appends.
JobLog TwoSlots(uint64_t max_bytes) {
  JobLog log(max_bytes);
  for (int i = 0; i < 4; ++i) {
    for (uint32_t slot : {0u, 1u}) {
      log.Append(absl::StrCat("s", slot), {.slot = slot, .unix_ms = 100 * i});
    }
    for (uint32_t slot : {0u, 1u}) {
      log.Append(absl::StrCat("-", i, "\n"), {.slot = slot, .unix_ms = 100 * i + 1});
    }
  }
  return log;
}

// All that a reader of a part gets, with what is missing in brackets.
std::string ReadPart(const JobLog& log, const JobLog::Part& part, uint64_t max_bytes = 1000) {
  std::string text;
  for (uint64_t at = log.StartOf(part); at < log.end();) {
    const JobLog::Excerpt excerpt = log.Read(at, max_bytes, part.slot);
    EXPECT_GT(excerpt.next, at);
    if (excerpt.missing > 0) absl::StrAppend(&text, "[", excerpt.missing, "]");
    text += excerpt.text;
    at = excerpt.next;
  }
  return text;
}

TEST(JobLogTest, OneSlotsTextIsReadWithoutThatOfOthers) {
  const JobLog log = TwoSlots(1000);
  for (uint64_t bytes : {4, 5, 7, 1000}) {
    EXPECT_EQ(ReadPart(log, {.slot = 0}, bytes), "s0-0\ns0-1\ns0-2\ns0-3\n");
    EXPECT_EQ(ReadPart(log, {.slot = 1}, bytes), "s1-0\ns1-1\ns1-2\ns1-3\n");
    EXPECT_EQ(ReadPart(log, {.slot = 2}, bytes), "");
  }
}

TEST(JobLogTest, LastLinesAreCountedFromTheEnd) {
  const JobLog log = TwoSlots(1000);
  EXPECT_EQ(ReadPart(log, {.slot = 1, .tail_lines = 2}), "s1-2\ns1-3\n");
  EXPECT_EQ(ReadPart(log, {.tail_lines = 1}), "-3\n");
  EXPECT_EQ(ReadPart(log, {.tail_lines = 0}), "");
  EXPECT_EQ(ReadPart(log, {.slot = 1, .tail_lines = 100}), "s1-0\ns1-1\ns1-2\ns1-3\n");
  // A line that has not ended yet is one.
  JobLog unfinished(100);
  unfinished.Append("a\nb\nc", {});
  EXPECT_EQ(ReadPart(unfinished, {.tail_lines = 2}), "b\nc");
  unfinished.Append("\n", {});
  EXPECT_EQ(ReadPart(unfinished, {.tail_lines = 2}), "b\nc\n");
  JobLog blank(100);
  blank.Append("\n\n\n", {});
  EXPECT_EQ(ReadPart(blank, {.tail_lines = 2}), "\n\n");
}

TEST(JobLogTest, TextIsReadByWhenItCame) {
  const JobLog log = TwoSlots(1000);
  EXPECT_EQ(ReadPart(log, {.slot = 0, .since_unix_ms = 200}), "s0-2\ns0-3\n");
  EXPECT_EQ(ReadPart(log, {.slot = 0, .since_unix_ms = 201}), "-2\ns0-3\n");
  EXPECT_EQ(ReadPart(log, {.slot = 0, .since_unix_ms = 200, .tail_lines = 1}), "s0-3\n");
  EXPECT_EQ(ReadPart(log, {.slot = 0, .since_unix_ms = 300, .tail_lines = 3}), "s0-3\n");
  EXPECT_EQ(ReadPart(log, {.since_unix_ms = 1000}), "");
}

TEST(JobLogTest, APartThatWasDroppedIsTold) {
  // The last eleven bytes or less: four appends of -2, s0, s1, -3 are nine or ten.
  const JobLog log = TwoSlots(11);
  EXPECT_EQ(ReadPart(log, {}), "[30]s0s1-3\n-3\n");
  EXPECT_EQ(ReadPart(log, {.slot = 1}), "[30]s1-3\n");
  EXPECT_EQ(ReadPart(log, {.slot = 1, .tail_lines = 2}), "[30]s1-3\n");
  EXPECT_EQ(ReadPart(log, {.since_unix_ms = 200}), "[30]s0s1-3\n-3\n");
  // What is there holds all that was asked for.
  EXPECT_EQ(ReadPart(log, {.tail_lines = 1}), "-3\n");
  EXPECT_EQ(ReadPart(log, {.since_unix_ms = 301}), "-3\n-3\n");
}

TEST(JobLogTest, TextOfBeforeSlotsWereNotedIsMissingFromEachSlots) {
  JobLog log(100);
  log.Restore({.offset = 0, .text = "old\n"});
  log.Append("new\n", {.slot = 0, .unix_ms = 5});
  EXPECT_EQ(ReadPart(log, {}), "old\nnew\n");
  EXPECT_EQ(ReadPart(log, {.slot = 0}), "[4]new\n");
  EXPECT_EQ(ReadPart(log, {.slot = 1}), "[4]");
  EXPECT_EQ(ReadPart(log, {.since_unix_ms = 1}), "new\n");
}

TEST(JobLogTest, EmptyLogReadsNothing) {
  EXPECT_EQ(JobLog(10).StartOf({.tail_lines = 5}), 0);
  EXPECT_EQ(JobLog(10).Read(0, 10).text, "");
  EXPECT_EQ(JobLog(10).Read(7, 10).text, "");
}

}  // namespace
}  // namespace muster
