#include "server/shard/moves/hand_over_chunks.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/byte_text.h"
#include "server/shard/resources/crash_point.h"
#include "server/shard/storage/fake_log_file.h"
#include "server/shard/storage/memory_store_for_testing.h"

namespace muster {
namespace {

// What a receiver writes, on a disk whose log holds records in memory until they are synced.
class HandOverChunksTest : public testing::Test {
 protected:
  HandOverChunksTest() {
    files_.set_keeps_space(true);
    EXPECT_TRUE(files_.CreateDirectory("/logs").ok());
    resources_.store = &store_;
    resources_.crash_point = &crash_point_;
    resources_.log_dir = "/logs";
    resources_.log.file_system = &files_;
  }

  MemoryStore store_;
  FakeLogFileSystem files_;
  CrashPoint crash_point_{nullptr};
  ShardResources resources_;
  const PartitionMove move_{.job_id = "job", .generation = 1, .partition = 0, .term = 2};
  const MovedPartition partition_{resources_, move_};
};

TEST_F(HandOverChunksTest, ALongLogIsWrittenAsItComes) {
  HandOverReceiver receiver(partition_, move_, store_);
  const auto take = [&](const v1::HandOverChunk& chunk) { return receiver.Add(chunk); };
  HandOverSender sender(
      partition_, [] { return true; }, take);
  v1::PartitionState state;
  state.set_lsn(4);
  ASSERT_TRUE(sender.Begin(state, 1).ok());
  ASSERT_TRUE(sender.Value(1, 77, AsBytes("value")).ok());
  constexpr int kRecords = 40;
  const std::string payload(size_t{1} << 20, 'p');
  const int before = files_.syncs();
  for (int i = 0; i < kRecords; ++i) {
    ASSERT_TRUE(sender.Record(5 + i, AsBytes("header"), AsBytes(payload)).ok());
  }
  // All of it would be held in memory up to the segment's end.
  EXPECT_GE(files_.syncs() - before, 4);
  ASSERT_TRUE(sender.End("").ok());
  const auto received = receiver.Finish();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->lsn(), 4u);
  EXPECT_EQ(received->adopted_term(), 2u);
  const auto log = partition_.OpenLog();
  ASSERT_TRUE(log.ok()) << log.status();
  int replayed = 0;
  ASSERT_TRUE((*log)
                  ->Replay(5,
                           [&](uint64_t, absl::Span<const std::byte> header,
                               absl::Span<const std::byte> bytes) {
                             ++replayed;
                             EXPECT_EQ(std::string(AsText(header)), "header");
                             EXPECT_EQ(std::string(AsText(bytes)), payload);
                             return absl::OkStatus();
                           })
                  .ok());
  EXPECT_EQ(replayed, kRecords);
}

}  // namespace
}  // namespace muster
