#include "server/shard/storage/mutation_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/byte_text.h"
#include "server/shard/storage/fake_log_file.h"
#include "server/shard/storage/mutation_log_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Operation = FakeLogFileSystem::Operation;
using Replayed = std::vector<std::tuple<uint64_t, std::string, std::string>>;

constexpr char kDirectory[] = "/log";

// On a disk that keeps its space, where records wait for their sync, and on one that does not.
class MutationLogTest : public ::testing::TestWithParam<bool> {
 protected:
  MutationLogTest() { files_.set_keeps_space(GetParam()); }

  absl::StatusOr<std::unique_ptr<MutationLog>> TryOpen() {
    return MutationLog::Open(kDirectory, {.segment_bytes = kSegmentBytes, .file_system = &files_});
  }

  std::unique_ptr<MutationLog> OpenLog() {
    auto log = TryOpen();
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }

  static uint64_t Append(MutationLog& log, absl::string_view header, absl::string_view payload) {
    const auto lsn = log.Append(AsBytes(header), Payload::Copy(AsBytes(payload)));
    EXPECT_TRUE(lsn.ok()) << lsn.status();
    return lsn.value_or(0);
  }

  static Replayed Replay(MutationLog& log, uint64_t from = 0) {
    Replayed records;
    const absl::Status status =
        log.Replay(from, [&records](uint64_t lsn, absl::Span<const std::byte> header,
                                    absl::Span<const std::byte> payload) {
          records.emplace_back(lsn, std::string(AsText(header)), std::string(AsText(payload)));
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    return records;
  }

  // Appends and syncs `n` records of 1 KiB, three of which fill a segment.
  static void Fill(MutationLog& log, int n) {
    for (int i = 0; i < n; ++i) Append(log, "h", std::string(1024, 'f'));
    ASSERT_TRUE(log.Sync().ok());
  }

  int SegmentFiles() {
    int count = 0;
    const auto names = files_.List(kDirectory);
    for (const std::string& name : *names) count += name.find(".log") != std::string::npos;
    return count;
  }

  FakeLogFileSystem files_;
};

TEST_P(MutationLogTest, ANewLogIsEmpty) {
  const auto log = OpenLog();
  EXPECT_EQ(log->next_lsn(), 1u);
  EXPECT_EQ(log->first_lsn(), 1u);
  EXPECT_EQ(log->synced_lsn(), 0u);
  EXPECT_EQ(log->bytes(), 0u);
  EXPECT_THAT(Replay(*log), IsEmpty());
  EXPECT_THAT(Replay(*log, 1), IsEmpty());
}

TEST_P(MutationLogTest, ReplaysWhatWasAppended) {
  const auto log = OpenLog();
  EXPECT_EQ(Append(*log, "one", "payload"), 1u);
  EXPECT_EQ(Append(*log, "", ""), 2u);
  EXPECT_EQ(Append(*log, "three", ""), 3u);
  EXPECT_EQ(log->next_lsn(), 4u);
  const auto expected = ElementsAre(std::tuple(1, "one", "payload"), std::tuple(2, "", ""),
                                    std::tuple(3, "three", ""));
  EXPECT_EQ(Replay(*log).size(), GetParam() ? 0u : 3u);
  EXPECT_EQ(log->synced_lsn(), 0u);
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_EQ(log->synced_lsn(), 3u);
  EXPECT_THAT(Replay(*log), expected);
  EXPECT_THAT(Replay(*OpenLog()), expected);
  EXPECT_THAT(Replay(*log, 3), ElementsAre(std::tuple(3, "three", "")));
  EXPECT_THAT(Replay(*log, 4), IsEmpty());
}

TEST_P(MutationLogTest, PayloadsInPiecesAreJoined) {
  const auto log = OpenLog();
  const std::string text = "0123456789abcdefghij";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const Payload payload({AsBytes(text).first(cut), AsBytes(""), AsBytes(text).subspan(cut)},
                          nullptr);
    ASSERT_TRUE(log->Append(AsBytes("h"), payload).ok());
  }
  ASSERT_TRUE(log->Sync().ok());
  const Replayed records = Replay(*log);
  EXPECT_EQ(records.size(), text.size() + 1);
  for (const auto& [lsn, header, payload] : records) EXPECT_EQ(payload, text);
}

TEST_P(MutationLogTest, GoesOnAfterReopening) {
  for (uint64_t round = 0; round < 20; ++round) {
    const auto log = OpenLog();
    ASSERT_EQ(log->next_lsn(), 3 * round + 1);
    Fill(*log, 3);
  }
  const auto log = OpenLog();
  EXPECT_EQ(Replay(*log).size(), 60u);
  EXPECT_EQ(SegmentFiles(), 20);
}

TEST_P(MutationLogTest, ShortWritesAreContinued) {
  for (const size_t most : {1, 7, 48, 100}) {
    files_.set_max_write_bytes(most);
    const auto log = OpenLog();
    Append(*log, "header", std::string(500, static_cast<char>('a' + most % 26)));
    ASSERT_TRUE(log->Sync().ok());
  }
  const auto log = OpenLog();
  const Replayed records = Replay(*log);
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(std::get<2>(records[1]), std::string(500, 'h'));
}

TEST_P(MutationLogTest, OneSyncForManyAppends) {
  const auto log = OpenLog();
  const int before = files_.syncs();
  for (int i = 0; i < 10; ++i) Append(*log, "h", "p");
  ASSERT_TRUE(log->Sync().ok());
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_EQ(files_.syncs(), before + 1);
}

TEST_P(MutationLogTest, ARecordLargerThanASegmentGetsItsOwn) {
  auto log = OpenLog();
  Append(*log, "small", "1");
  Append(*log, "large", std::string(3 * kSegmentBytes, 'x'));
  Append(*log, "small", "2");
  EXPECT_EQ(SegmentFiles(), 3);
  ASSERT_TRUE(log->Sync().ok());
  log = OpenLog();
  const Replayed records = Replay(*log);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(std::get<2>(records[1]), std::string(3 * kSegmentBytes, 'x'));
  EXPECT_EQ(std::get<2>(records[2]), "2");
  // Its file is of no use for others.
  ASSERT_TRUE(log->TruncateBefore(3).ok());
  EXPECT_THAT(Replay(*log), ElementsAre(std::tuple(3, "small", "2")));
  EXPECT_EQ(files_.List(kDirectory)->size(), 2u);
}

TEST_P(MutationLogTest, TheVisitorsErrorEndsTheReplay) {
  const auto log = OpenLog();
  Fill(*log, 5);
  int calls = 0;
  const absl::Status status = log->Replay(
      2, [&calls](uint64_t lsn, absl::Span<const std::byte>, absl::Span<const std::byte>) {
        EXPECT_EQ(lsn, 2u + calls);
        return ++calls == 2 ? absl::CancelledError("enough") : absl::OkStatus();
      });
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_EQ(calls, 2);
}

TEST_P(MutationLogTest, TruncateFreesWholeSegmentsAndReusesThem) {
  auto log = OpenLog();
  Fill(*log, 12);
  EXPECT_EQ(SegmentFiles(), 4);
  const uint64_t bytes = log->bytes();
  ASSERT_TRUE(log->TruncateBefore(6).ok());
  EXPECT_EQ(log->first_lsn(), 4u);
  EXPECT_EQ(SegmentFiles(), 3);
  EXPECT_EQ(log->bytes(), bytes / 4 * 3);
  ASSERT_TRUE(log->TruncateBefore(100).ok());
  EXPECT_EQ(log->first_lsn(), 10u);
  EXPECT_EQ(SegmentFiles(), 1);
  EXPECT_EQ(Replay(*log).size(), 3u);
  const absl::Status early = log->Replay(9, [](auto...) { return absl::OkStatus(); });
  EXPECT_TRUE(absl::IsOutOfRange(early)) << early;
  EXPECT_THAT(early.message(), HasSubstr("first record is 10"));
  // Two of the three were kept for reuse: no more space is needed for two more segments.
  EXPECT_EQ(files_.List(kDirectory)->size(), 3u);
  files_.set_capacity_bytes(3 * kSegmentBytes);
  Fill(*log, 6);
  EXPECT_EQ(SegmentFiles(), 3);
  EXPECT_EQ(files_.List(kDirectory)->size(), 3u);
  log = OpenLog();
  EXPECT_EQ(log->first_lsn(), 10u);
  EXPECT_EQ(log->next_lsn(), 19u);
}

TEST_P(MutationLogTest, RecordsOfAReusedFileStayDead) {
  auto log = OpenLog();
  // Records of equal length and content: only their place in the log tells them apart.
  for (int round = 0; round < 10; ++round) {
    Fill(*log, 3);
    ASSERT_TRUE(log->TruncateBefore(log->next_lsn()).ok());
    Append(*log, "h", std::string(1024, 'f'));
    ASSERT_TRUE(log->Sync().ok());
    const uint64_t next = log->next_lsn();
    log = OpenLog();
    ASSERT_EQ(log->next_lsn(), next);
    ASSERT_EQ(Replay(*log).size(), next - log->first_lsn());
  }
}

TEST_P(MutationLogTest, AFullDiskIsAnErrorUntilThereIsSpace) {
  const auto log = OpenLog();
  Fill(*log, 3);
  files_.set_capacity_bytes(kSegmentBytes);
  for (int i = 0; i < 3; ++i) {
    const auto lsn = log->Append(AsBytes("h"), Payload::Copy(AsBytes(std::string(1024, 'x'))));
    EXPECT_TRUE(absl::IsResourceExhausted(lsn.status())) << lsn.status();
    EXPECT_EQ(log->next_lsn(), 4u);
  }
  // What fits still goes.
  EXPECT_EQ(Append(*log, "small", "1"), 4u);
  files_.set_capacity_bytes(10 * kSegmentBytes);
  EXPECT_EQ(Append(*log, "h", std::string(1024, 'y')), 5u);
  ASSERT_TRUE(log->Sync().ok());
  const Replayed records = Replay(*OpenLog());
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(std::get<2>(records[3]), "1");
  EXPECT_EQ(std::get<2>(records[4]), std::string(1024, 'y'));
}

TEST_P(MutationLogTest, AHalfWrittenRecordIsOverwritten) {
  files_.set_keeps_space(false);
  const auto log = OpenLog();
  Append(*log, "a", "first");
  int writes = 0;
  files_.set_fault([&writes](Operation operation, const std::string&) {
    return operation == Operation::kWrite && ++writes == 1
               ? absl::ResourceExhaustedError("no space")
               : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(
      log->Append(AsBytes("b"), Payload::Copy(AsBytes(std::string(900, 'l')))).status()));
  EXPECT_EQ(Append(*log, "c", "second"), 2u);
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_THAT(Replay(*OpenLog()),
              ElementsAre(std::tuple(1, "a", "first"), std::tuple(2, "c", "second")));
}

TEST_P(MutationLogTest, AFailedSyncIsFinalUntilReopened) {
  auto log = OpenLog();
  Append(*log, "a", "synced");
  ASSERT_TRUE(log->Sync().ok());
  Append(*log, "b", "in doubt");
  files_.set_fault([](Operation operation, const std::string&) {
    return operation == Operation::kSync ? absl::UnavailableError("I/O error") : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsUnavailable(log->Sync()));
  EXPECT_FALSE(TryOpen().ok());
  files_.set_fault(nullptr);
  const absl::Status again = log->Sync();
  EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
  EXPECT_THAT(again.message(), HasSubstr("I/O error"));
  EXPECT_THAT(again.message(), HasSubstr("open it again"));
  EXPECT_TRUE(absl::IsFailedPrecondition(log->Append({}, Payload()).status()));
  EXPECT_EQ(log->synced_lsn(), 1u);

  // Reopening writes the doubtful part again before it flushes, or it could still be missing on
  // disk.
  int rewrites = 0;
  files_.set_fault([&rewrites](Operation operation, const std::string&) {
    rewrites += operation == Operation::kWrite;
    return absl::OkStatus();
  });
  log = OpenLog();
  EXPECT_EQ(rewrites, 1);
  EXPECT_EQ(log->synced_lsn(), 2u);
  EXPECT_EQ(Append(*log, "c", "new"), 3u);
}

TEST_P(MutationLogTest, TakesRecordsWhileASyncRuns) {
  const auto log = OpenLog();
  EXPECT_EQ(log->StartSync(), nullptr);
  Append(*log, "a", "first");
  const std::shared_ptr<LogSync> sync = log->StartSync();
  ASSERT_NE(sync, nullptr);
  Append(*log, "b", std::string(700, 'm'));
  EXPECT_EQ(log->StartSync(), nullptr);
  EXPECT_EQ(log->synced_lsn(), 0u);
  std::thread([&sync] { EXPECT_TRUE(sync->Run().ok()); }).join();
  ASSERT_TRUE(log->FinishSync().ok());
  EXPECT_EQ(log->synced_lsn(), 1u);
  EXPECT_EQ(files_.syncs(), 2);
  // Fills the file, so that the next one is begun in mid-sync.
  for (int i = 0; i < 4; ++i) {
    Append(*log, "c", std::string(1000, static_cast<char>('n' + i)));
    log->StartSync();
  }
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_EQ(log->synced_lsn(), 6u);
  const Replayed records = Replay(*OpenLog());
  ASSERT_EQ(records.size(), 6u);
  EXPECT_EQ(std::get<2>(records[1]), std::string(700, 'm'));
  EXPECT_EQ(std::get<2>(records[5]), std::string(1000, 'q'));
}

TEST_P(MutationLogTest, WhatASyncHasNotTakenIsLostWithTheProcess) {
  auto log = OpenLog();
  Append(*log, "a", "first");
  ASSERT_TRUE(log->Sync().ok());
  Append(*log, "b", "second");
  log->StartSync();
  log.reset();
  log = OpenLog();
  const size_t kept = Replay(*log).size();
  EXPECT_EQ(kept, GetParam() ? 1u : 2u);
  EXPECT_EQ(Append(*log, "c", "third"), kept + 1);
}

TEST_P(MutationLogTest, ASyncThatHasNotBegunIsCancelledWithTheLog) {
  auto log = OpenLog();
  Append(*log, "a", "first");
  const std::shared_ptr<LogSync> sync = log->StartSync();
  ASSERT_NE(sync, nullptr);
  log.reset();
  log = OpenLog();
  Append(*log, "b", "second");
  ASSERT_TRUE(log->Sync().ok());
  const std::string before = files_.contents(kFirstSegment);
  // Its blocks would replace those that have been written since.
  EXPECT_TRUE(absl::IsCancelled(sync->Run()));
  EXPECT_EQ(files_.contents(kFirstSegment), before);
}

TEST_P(MutationLogTest, WaitsAtItsEndForTheThreadThatSyncs) {
  auto log = OpenLog();
  Append(*log, "a", "first");
  const std::shared_ptr<LogSync> sync = log->StartSync();
  absl::Notification syncing;
  std::atomic<bool> ended = false;
  std::atomic<bool> waited = false;
  files_.set_fault([&](Operation operation, const std::string&) {
    if (operation == Operation::kSync) {
      syncing.Notify();
      // The flush does not end before the log either waits for it or is gone.
      while (!ended && !sync->awaited()) std::this_thread::yield();
      waited = !ended;
    }
    return absl::OkStatus();
  });
  std::thread thread([&] { EXPECT_TRUE(sync->Run().ok()); });
  syncing.WaitForNotification();
  log.reset();
  ended = true;
  thread.join();
  EXPECT_TRUE(waited);
}

TEST_P(MutationLogTest, ACopyOfThePayloadOutlivesTheRecord) {
  const auto log =
      MutationLog::Open(kDirectory, {.segment_bytes = uint64_t{4} << 20, .file_system = &files_});
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_EQ((*log)->HoldsCopyOf(700000 * sizeof(float)), GetParam());
  if (!GetParam()) return;
  std::vector<float> shared(700000, 1);
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(shared.data()),
                                          shared.size() * sizeof(float));
  Payload copy;
  ASSERT_TRUE((*log)->Append(AsBytes("h"), Payload({bytes}, nullptr), &copy).ok());
  // Another process may write to what it sent at any time.
  std::fill(shared.begin(), shared.end(), 2);
  ASSERT_TRUE((*log)->Sync().ok());
  for (int i = 0; i < 40; ++i) Append(**log, "h", std::string(65536, 'x'));
  ASSERT_TRUE((*log)->Sync().ok());
  ASSERT_EQ(copy.size(), bytes.size());
  std::vector<float> values(shared.size());
  copy.CopyTo(values.data());
  EXPECT_THAT(values, ::testing::Each(1));
  const Replayed records = Replay(**log);
  ASSERT_FALSE(records.empty());
  EXPECT_EQ(std::get<2>(records[0]).size(), bytes.size());
  EXPECT_EQ(std::memcmp(std::get<2>(records[0]).data(), values.data(), bytes.size()), 0);
}

TEST_P(MutationLogTest, ASmallPayloadKeepsNoMemoryOfTheLog) {
  const auto pool = BufferPool::Create(size_t{64} << 20);
  const auto log = MutationLog::Open(
      kDirectory, {.segment_bytes = uint64_t{1} << 20, .file_system = &files_, .memory = pool});
  ASSERT_TRUE(log.ok()) << log.status();
  // As gradients that come one by one and wait for their clock's end.
  std::vector<Payload> kept(20);
  for (Payload& copy : kept) {
    EXPECT_FALSE((*log)->HoldsCopyOf(4));
    ASSERT_TRUE((*log)->Append(AsBytes("h"), Payload::Copy(AsBytes("tiny")), &copy).ok());
    ASSERT_TRUE((*log)->Sync().ok());
  }
  // The one buffer that all of them were written from, one after another.
  EXPECT_EQ(pool->kept_bytes(), GetParam() ? LogStage::kBufferBytes : 0);
}

TEST_P(MutationLogTest, ANewerFormatIsRefusedByName) {
  Fill(*OpenLog(), 1);
  files_.contents(kFirstSegment)[8] = 7;
  const absl::Status status = TryOpen().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(kFirstSegment));
  EXPECT_THAT(status.message(), HasSubstr("format version 7"));
}

TEST_P(MutationLogTest, MissingSegmentsAreDataLoss) {
  Fill(*OpenLog(), 9);
  ASSERT_TRUE(files_.Remove("/log/00000000000000000002.log").ok());
  const absl::Status status = TryOpen().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("00000000000000000002.log is missing"));
}

TEST_P(MutationLogTest, ARenamedSegmentIsDataLoss) {
  Fill(*OpenLog(), 9);
  ASSERT_TRUE(files_.Rename("/log/00000000000000000003.log", kFirstSegment).ok());
  EXPECT_TRUE(absl::IsDataLoss(TryOpen().status()));
}

TEST_P(MutationLogTest, DestroyLeavesNothingAndAFreshStart) {
  Fill(*OpenLog(), 9);
  ASSERT_TRUE(MutationLog::Destroy(kDirectory, &files_).ok());
  EXPECT_FALSE(files_.Exists(kDirectory));
  EXPECT_TRUE(MutationLog::Destroy(kDirectory, &files_).ok());
  EXPECT_EQ(OpenLog()->next_lsn(), 1u);
}

TEST_P(MutationLogTest, AHalfDestroyedLogNeverComesBack) {
  for (int removals = 0; removals < 6; ++removals) {
    Fill(*OpenLog(), 9);
    int left = removals;
    files_.set_fault([&left](Operation operation, const std::string&) {
      return operation == Operation::kRemove && left-- == 0 ? absl::UnavailableError("crash")
                                                            : absl::OkStatus();
    });
    EXPECT_EQ(MutationLog::Destroy(kDirectory, &files_).ok(), removals >= 5);
    files_.set_fault(nullptr);
    EXPECT_EQ(OpenLog()->next_lsn(), 1u);
    ASSERT_TRUE(MutationLog::Destroy(kDirectory, &files_).ok());
  }
}

TEST_P(MutationLogTest, SegmentsHaveALeastSize) {
  const absl::Status status =
      MutationLog::Open(kDirectory, {.segment_bytes = 100, .file_system = &files_}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

// The same against the machine's file system.
INSTANTIATE_TEST_SUITE_P(Disks, MutationLogTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "KeepsSpace" : "WritesAtOnce";
                         });

TEST(MutationLogPosixTest, AppendsReplaysTruncatesAndReopens) {
  const std::string directory = absl::StrCat(::testing::TempDir(), "mutation_log_posix_test");
  std::filesystem::remove_all(directory);
  const MutationLog::Options options{.segment_bytes = 1 << 16};
  uint64_t next = 1;
  for (int round = 0; round < 5; ++round) {
    const auto log = MutationLog::Open(directory, options);
    ASSERT_TRUE(log.ok()) << log.status();
    ASSERT_EQ((*log)->next_lsn(), next);
    for (int i = 0; i < 100; ++i) {
      const std::string text(10 * i + round, static_cast<char>('a' + next % 26));
      ASSERT_EQ((*log)->Append(AsBytes(text), Payload::Copy(AsBytes(text))).value(), next);
      ++next;
    }
    ASSERT_TRUE((*log)->Sync().ok());
    ASSERT_TRUE((*log)->TruncateBefore(next - 20).ok());
    ASSERT_GE((*log)->first_lsn(), round == 0 ? 1 : next - 120);
    uint64_t expected = (*log)->first_lsn();
    const absl::Status status = (*log)->Replay(
        0,
        [&](uint64_t lsn, absl::Span<const std::byte> header, absl::Span<const std::byte> payload) {
          EXPECT_EQ(lsn, expected++);
          const int i = (lsn - 1) % 100;
          const int r = (lsn - 1) / 100;
          EXPECT_EQ(std::string(AsText(payload)),
                    std::string(10 * i + r, static_cast<char>('a' + lsn % 26)));
          EXPECT_EQ(std::string(AsText(header)), std::string(AsText(payload)));
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(expected, next);
  }
  ASSERT_TRUE(MutationLog::Destroy(directory).ok());
  EXPECT_FALSE(std::filesystem::exists(directory));
}

}  // namespace
}  // namespace muster
