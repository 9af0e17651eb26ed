#include "server/shard/tables/versioned_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace muster {
namespace {

TEST(VersionedBufferTest, WritesInPlaceWhileNobodyReads) {
  VersionedBuffer buffer(BufferPool::Create(1 << 20), 4);
  const float* before = buffer.Write().data();
  buffer.Read();
  EXPECT_EQ(buffer.Write().data(), before);
}

TEST(VersionedBufferTest, AReaderKeepsItsVersion) {
  VersionedBuffer buffer(BufferPool::Create(1 << 20), 2);
  buffer.Write()[0] = 1;
  buffer.Write()[1] = 2;
  const std::shared_ptr<const float> read = buffer.Read();
  buffer.Write()[0] = 9;
  EXPECT_EQ(read.get()[0], 1);
  EXPECT_THAT(buffer.Peek(), testing::ElementsAre(9, 2));
  EXPECT_EQ(buffer.Read().get()[0], 9);
}

TEST(VersionedBufferTest, ReadersOnOtherThreadsNeverSeeAWrite) {
  VersionedBuffer buffer(BufferPool::Create(1 << 20), 1024);
  for (float& value : buffer.Write()) value = 0;
  std::vector<std::thread> readers;
  for (int round = 1; round <= 50; ++round) {
    readers.emplace_back([version = buffer.Read(), round] {
      for (int i = 0; i < 1024; ++i) ASSERT_EQ(version.get()[i], round - 1);
    });
    for (float& value : buffer.Write()) value = round;
  }
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace muster
