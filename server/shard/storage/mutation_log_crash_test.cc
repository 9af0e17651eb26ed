// What the log promises across crashes and damage: torn ends, lost sectors, random schedules with
// failing disks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/byte_text.h"
#include "server/shard/storage/fake_log_file.h"
#include "server/shard/storage/log_segment.h"
#include "server/shard/storage/mutation_log.h"
#include "server/shard/storage/mutation_log_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Operation = FakeLogFileSystem::Operation;

absl::StatusOr<std::unique_ptr<MutationLog>> Open(FakeLogFileSystem& files) {
  return MutationLog::Open("/log", {.segment_bytes = kSegmentBytes, .file_system = &files});
}

absl::StatusOr<uint64_t> Append(MutationLog& log, const std::string& text) {
  // In pieces, of which the header is one.
  const size_t third = text.size() / 3;
  return log.Append(
      AsBytes(text).first(third),
      Payload({AsBytes(text).subspan(third, third), AsBytes(text).subspan(2 * third)}, nullptr));
}

absl::StatusOr<std::vector<std::string>> Records(MutationLog& log) {
  std::vector<std::string> records;
  const absl::Status status = log.Replay(0, [&](uint64_t lsn, absl::Span<const std::byte> header,
                                                absl::Span<const std::byte> payload) {
    EXPECT_EQ(lsn, log.first_lsn() + records.size());
    records.emplace_back(reinterpret_cast<const char*>(header.data()), header.size());
    records.back().append(reinterpret_cast<const char*>(payload.data()), payload.size());
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return records;
}

// A log with "first", "second" and "third", each synced when `synced`.
void WriteThree(FakeLogFileSystem& files, bool synced) {
  const auto log = Open(files);
  ASSERT_TRUE(log.ok()) << log.status();
  for (const char* text : {"first", "second", "third"}) {
    ASSERT_TRUE(Append(**log, text).ok());
    if (synced) {
      ASSERT_TRUE((*log)->Sync().ok());
    }
  }
}

// Where the records of WriteThree begin, and their end.
std::vector<uint64_t> Offsets() {
  std::vector<uint64_t> offsets = {kLogSegmentHeaderBytes};
  for (const std::string text : {"first", "second", "third"}) {
    const uint64_t header = text.size() / 3;
    offsets.push_back(offsets.back() + LogRecordBytes(header, text.size() - header));
  }
  return offsets;
}

TEST(MutationLogDamageTest, AFileThatWasCutIsDataLoss) {
  for (uint64_t length = 0; length < kSegmentBytes; length += 8) {
    FakeLogFileSystem files;
    WriteThree(files, true);
    files.contents(kFirstSegment).resize(length);
    const absl::Status status = Open(files).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << length << ": " << status;
    ASSERT_THAT(status.message(), HasSubstr(kFirstSegment));
  }
}

// Zeros at the end of each of the records of WriteThree.
constexpr uint64_t kPadding = 4;

TEST(MutationLogTornEndTest, AnEndThatWasNotWrittenKeepsTheRecordsBefore) {
  const std::vector<uint64_t> offsets = Offsets();
  for (uint64_t length = kLogSegmentHeaderBytes; length <= offsets[3]; ++length) {
    FakeLogFileSystem files;
    WriteThree(files, true);
    std::string& file = files.contents(kFirstSegment);
    std::fill(file.begin() + length, file.end(), '\0');
    size_t whole = 0;
    while (whole < 3 && offsets[whole + 1] - kPadding <= length) ++whole;
    {
      const auto log = Open(files);
      ASSERT_TRUE(log.ok()) << length << ": " << log.status();
      ASSERT_EQ((*log)->next_lsn(), whole + 1) << length;
      ASSERT_EQ(Append(**log, "fourth").value(), whole + 1);
      ASSERT_TRUE((*log)->Sync().ok());
    }
    const auto log = Open(files);
    ASSERT_TRUE(log.ok()) << length << ": " << log.status();
    const std::vector<std::string> records = Records(**log).value();
    ASSERT_EQ(records.size(), whole + 1) << length;
    ASSERT_EQ(records.back(), "fourth");
  }
}

TEST(MutationLogTornEndTest, AGarbledLastRecordIsCutOffAtAnyByte) {
  const std::vector<uint64_t> offsets = Offsets();
  for (uint64_t at = offsets[2]; at < offsets[3]; ++at) {
    FakeLogFileSystem files;
    WriteThree(files, true);
    std::string& file = files.contents(kFirstSegment);
    for (uint64_t i = at; i < offsets[3]; ++i) file[i] ^= 0x5a;
    const auto log = Open(files);
    ASSERT_TRUE(log.ok()) << at << ": " << log.status();
    // Only padding may be garbled without a loss.
    const size_t expected = at >= offsets[3] - kPadding ? 3 : 2;
    ASSERT_EQ(Records(**log)->size(), expected) << at;
  }
}

TEST(MutationLogDamageTest, ADamagedSyncedRecordIsDataLossAtAnyByte) {
  const std::vector<uint64_t> offsets = Offsets();
  for (uint64_t at = offsets[0]; at < offsets[2]; ++at) {
    FakeLogFileSystem files;
    WriteThree(files, true);
    files.contents(kFirstSegment)[at] ^= 0x5a;
    const auto log = Open(files);
    if (log.ok()) {
      // It was padding.
      ASSERT_EQ(*Records(**log), (std::vector<std::string>{"first", "second", "third"})) << at;
      continue;
    }
    ASSERT_TRUE(absl::IsDataLoss(log.status())) << at << ": " << log.status();
    const int record = at < offsets[1] ? 0 : 1;
    ASSERT_THAT(log.status().message(), HasSubstr(kFirstSegment));
    ASSERT_THAT(log.status().message(),
                HasSubstr(absl::StrCat("record ", record + 1, " at offset ", offsets[record])));
  }
}

TEST(MutationLogDamageTest, AnUnsyncedRecordMayBeLostBeforeALaterOne) {
  FakeLogFileSystem files;
  WriteThree(files, false);
  files.contents(kFirstSegment)[Offsets()[1] + 56] ^= 1;
  {
    const auto log = Open(files);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_THAT(Records(**log).value(), ElementsAre("first"));
    // As long as the lost one, so that "third" follows it in the file.
    ASSERT_EQ(Append(**log, "SECOND").value(), 2u);
    ASSERT_TRUE((*log)->Sync().ok());
  }
  const auto log = Open(files);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_THAT(Records(**log).value(), ElementsAre("first", "SECOND"));
}

TEST(MutationLogDamageTest, DamageInAnEarlierSegmentIsDataLoss) {
  FakeLogFileSystem files;
  {
    const auto log = Open(files);
    for (int i = 0; i < 9; ++i) ASSERT_TRUE(Append(**log, std::string(1024, 'a')).ok());
    ASSERT_TRUE((*log)->Sync().ok());
  }
  // The last record of the first segment: nothing follows it in its file.
  files.contents(kFirstSegment)[kLogSegmentHeaderBytes + 2 * LogRecordBytes(341, 683) + 100] ^= 1;
  const auto log = Open(files);
  ASSERT_TRUE(log.ok()) << log.status();
  const absl::Status status = Records(**log).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(kFirstSegment));
  EXPECT_THAT(status.message(), HasSubstr("record 3 at offset"));
}

// Random schedules against a model: after each crash, all synced records are there, then some of
// the others in order, and nothing else; whatever the disk does in between.
TEST(MutationLogRandomTest, KeepsItsPromisesThroughCrashes) {
  int crashes = 0;
  int torn = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    FakeLogFileSystem files;
    files.set_keeps_space(seed % 2 == 1);
    // All records that may be in the log, by LSN - 1; those before `synced` must be.
    std::vector<std::string> model;
    size_t synced = 0;
    size_t truncated = 0;
    for (int life = 0; life < 6; ++life) {
      files.set_fault(nullptr);
      files.set_max_write_bytes(random() % 3 == 0 ? 1 + random() % 300 : SIZE_MAX);
      // Opening fails at times, too.
      if (random() % 4 == 0) {
        int left = random() % 12;
        files.set_fault([&left](Operation, const std::string&) {
          return left-- <= 0 ? absl::UnavailableError("I/O error") : absl::OkStatus();
        });
        const absl::Status status = Open(files).status();
        ASSERT_FALSE(absl::IsDataLoss(status)) << seed << ": " << status;
        files.set_fault(nullptr);
        if (random() % 2 == 0) files.Crash(random());
      }
      const auto opened = Open(files);
      ASSERT_TRUE(opened.ok()) << "seed " << seed << " life " << life << ": " << opened.status();
      MutationLog& log = **opened;
      const auto records = Records(log);
      ASSERT_TRUE(records.ok()) << "seed " << seed << ": " << records.status();
      const size_t first = log.first_lsn() - 1;
      ASSERT_LE(first, truncated) << seed;
      ASSERT_GE(log.next_lsn() - 1, synced) << "seed " << seed << " life " << life;
      ASSERT_LE(log.next_lsn() - 1, model.size()) << seed;
      torn += log.next_lsn() - 1 < model.size();
      for (size_t i = 0; i < records->size(); ++i) {
        ASSERT_EQ((*records)[i], model[first + i]) << "seed " << seed << " record " << first + i;
      }
      // What was opened is durable.
      model.resize(log.next_lsn() - 1);
      synced = model.size();

      const double fault_rate = random() % 2 == 0 ? 0.02 : 0;
      files.set_fault([&](Operation operation, const std::string&) {
        return std::uniform_real_distribution<>()(random) < fault_rate
                   ? absl::ResourceExhaustedError("no space")
                   : absl::OkStatus();
      });
      const int actions = random() % 60;
      for (int i = 0; i < actions; ++i) {
        const int action = random() % 10;
        if (action < 7) {
          // Often of equal lengths, so that old records lie where new ones might be looked for.
          const size_t length = random() % 2 == 0 ? 600 : random() % 5000;
          std::string text = absl::StrCat(seed, " ", life, " ", i, " ");
          text.resize(std::max(text.size(), length), static_cast<char>('a' + i % 26));
          const auto lsn = Append(log, text);
          if (lsn.ok()) {
            ASSERT_EQ(*lsn, model.size() + 1);
            model.push_back(text);
          }
        } else if (action < 9) {
          // At times left to a later call, with records in between.
          if (random() % 3 == 0) {
            log.StartSync();
          } else if (log.Sync().ok()) {
            synced = model.size();
          }
        } else if (synced > 0) {
          // Records may be forgotten as soon as it is tried.
          const size_t before = random() % (synced + 1);
          truncated = std::max(truncated, before);
          log.TruncateBefore(before + 1).IgnoreError();
        }
        synced = std::max<size_t>(synced, log.synced_lsn());
      }
      files.set_fault(nullptr);
      if (random() % 4 != 0) {
        files.Crash(random());
        ++crashes;
      }
    }
  }
  // The test is of use only if crashes did tear logs.
  EXPECT_GT(crashes, 500);
  EXPECT_GT(torn, 200);
}

}  // namespace
}  // namespace muster
