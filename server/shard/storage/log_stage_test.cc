#include "server/shard/storage/log_stage.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/byte_text.h"
#include "server/shard/storage/fake_log_file.h"

namespace muster {
namespace {

constexpr size_t kBlock = LogFile::kBlockBytes;

std::string Text(const Payload& payload) {
  std::string text(payload.size(), '\0');
  payload.CopyTo(text.data());
  return text;
}

class LogStageTest : public ::testing::Test {
 protected:
  LogStageTest() {
    EXPECT_TRUE(files_.CreateDirectory("/d").ok());
    file_ = *files_.Open("/d/f", LogFileSystem::Mode::kCreate);
  }

  const std::string& contents() { return files_.contents("/d/f"); }

  FakeLogFileSystem files_;
  std::unique_ptr<LogFile> file_;
  const std::shared_ptr<BufferPool> pool_ = BufferPool::Create(size_t{64} << 20);
};

TEST_F(LogStageTest, WritesWholeBlocksAroundWhatItTook) {
  // The file's second block has three bytes.
  LogStage stage(*pool_, kBlock + 3, AsBytes("abc"));
  EXPECT_EQ(stage.end(), kBlock + 3);
  stage.Reserve(6 + kBlock);
  stage.Append(AsBytes("-head-"));
  stage.Append(AsBytes(std::string(kBlock, 'x')));
  stage.Overwrite(kBlock + 3, AsBytes("+HEAD+"));
  EXPECT_EQ(stage.end(), 2 * kBlock + 9);
  EXPECT_EQ(stage.Tail().size(), 9u);
  ASSERT_TRUE(stage.WriteTo(*file_).ok());
  EXPECT_EQ(contents().size(), 3 * kBlock);
  EXPECT_EQ(contents().substr(kBlock, 10), "abc+HEAD+x");
  EXPECT_EQ(contents().substr(2 * kBlock + 9), std::string(kBlock - 9, '\0'));
}

TEST_F(LogStageTest, RoomThatThereIsNoMemoryForChangesNothing) {
  LogStage stage(*pool_, 0, {});
  // Before its first block is full, and behind it.
  for (const size_t bytes : {size_t{3}, kBlock}) {
    stage.Reserve(bytes);
    stage.Append(AsBytes(std::string(bytes, 'a')));
    const uint64_t end = stage.end();
    EXPECT_THROW(stage.Reserve(size_t{1} << 60), std::bad_alloc);
    EXPECT_EQ(stage.end(), end);
  }
  stage.Reserve(1);
  stage.Append(AsBytes("b"));
  ASSERT_TRUE(stage.WriteTo(*file_).ok());
  EXPECT_EQ(contents().substr(0, kBlock + 5), std::string(kBlock + 3, 'a') + "b" + '\0');
}

TEST_F(LogStageTest, TheNextStageGoesOnWhereTheLastEnded) {
  LogStage first(*pool_, 0, {});
  first.Reserve(3);
  first.Append(AsBytes("one"));
  ASSERT_TRUE(first.WriteTo(*file_).ok());
  LogStage second(*pool_, first.end(), first.Tail());
  second.Reserve(3);
  second.Append(AsBytes("two"));
  ASSERT_TRUE(second.WriteTo(*file_).ok());
  EXPECT_EQ(contents().substr(0, 7), std::string("onetwo\0", 7));
}

TEST_F(LogStageTest, ChecksumsAreOfWhatWasCopied) {
  const std::string large(3 * LogStage::kBufferBytes / 2, 'y');
  LogStage stage(*pool_, 0, {});
  FingerprintStream checksum;
  stage.Reserve(1 + large.size());
  stage.Append(AsBytes("a"), checksum);
  stage.Append(AsBytes(large), checksum);
  EXPECT_EQ(checksum.Finish(), Fingerprint("a" + large));
}

TEST_F(LogStageTest, RecordsLieInOneSpanAndOutliveTheStage) {
  // Of all lengths from small to more than a buffer, so that buffers end anywhere.
  std::vector<std::string> records;
  std::vector<Payload> shared;
  std::string all;
  {
    LogStage stage(*pool_, 0, {});
    for (size_t bytes = 1; bytes < 2 * LogStage::kBufferBytes; bytes = bytes * 5 / 3 + 7) {
      records.push_back(std::string(bytes, static_cast<char>('a' + records.size() % 26)));
      stage.Reserve(4 + bytes);
      stage.Append(AsBytes("head"));
      const uint64_t begin = stage.end();
      stage.Append(AsBytes(records.back()));
      shared.push_back(stage.SharedBytes(begin, bytes));
      EXPECT_EQ(shared.back().spans().size(), 1u);
      EXPECT_EQ(stage.SharedBytes(begin, 0).size(), 0u);
      all += "head" + records.back();
    }
    ASSERT_TRUE(stage.WriteTo(*file_).ok());
  }
  EXPECT_GT(all.size(), 2 * LogStage::kBufferBytes);
  EXPECT_EQ(contents().substr(0, all.size()), all);
  // Memory that was given back would be taken again here.
  LogStage other(*pool_, 0, {});
  other.Reserve(2 * LogStage::kBufferBytes);
  other.Append(AsBytes(std::string(2 * LogStage::kBufferBytes, '?')));
  for (size_t i = 0; i < shared.size(); ++i) EXPECT_EQ(Text(shared[i]), records[i]);
}

}  // namespace
}  // namespace muster
