#include "common/transport/shared_memory/byte_ring.h"

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr size_t kCapacity = 256;

class ByteRingTest : public testing::Test {
 protected:
  absl::Span<const std::byte> Bytes(size_t begin, size_t length) {
    return absl::MakeConstSpan(pattern_).subspan(begin % 251, length);
  }

  struct alignas(64) Memory {
    std::byte bytes[RingBytes(kCapacity)] = {};
  };
  std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();
  RingHeader& header_ = *reinterpret_cast<RingHeader*>(memory_->bytes);
  RingWriter writer_{memory_->bytes, kCapacity};
  RingReader reader_{memory_->bytes, kCapacity};
  std::vector<std::byte> pattern_ = [] {
    std::vector<std::byte> pattern(2048);
    for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<std::byte>(i % 251);
    return pattern;
  }();
};

TEST_F(ByteRingTest, HoldsItsCapacityAndNoMore) {
  EXPECT_EQ(*writer_.Write(Bytes(0, 300)), kCapacity);
  EXPECT_EQ(*writer_.Write(Bytes(kCapacity, 1)), 0u);
  EXPECT_EQ(reader_.Peek(1000)->size(), kCapacity);
  reader_.Consume(10);
  EXPECT_EQ(*writer_.Write(Bytes(kCapacity, 300)), 10u);
}

TEST_F(ByteRingTest, KeepsOrderAcrossTheEnd) {
  uint64_t written = 0, read = 0;
  while (read < 10'000) {
    written += *writer_.Write(Bytes(written, 1 + written % 100));
    const auto bytes = *reader_.Peek(1 + read % 77);
    ASSERT_FALSE(bytes.empty());
    ASSERT_EQ(std::memcmp(bytes.data(), Bytes(read, bytes.size()).data(), bytes.size()), 0);
    reader_.Consume(bytes.size());
    read += bytes.size();
  }
}

TEST_F(ByteRingTest, AnImpossibleTailIsAnError) {
  ASSERT_EQ(*writer_.Write(Bytes(0, 100)), 100u);
  for (const uint64_t tail : {uint64_t{kCapacity + 1}, ~uint64_t{0}, uint64_t{1} << 63}) {
    header_.tail.store(tail);
    RingReader reader(memory_->bytes, kCapacity);
    EXPECT_EQ(reader.Peek(1).status().code(), absl::StatusCode::kDataLoss) << tail;
  }
  // Backwards, behind what was consumed.
  header_.tail.store(100);
  ASSERT_EQ(reader_.Peek(100)->size(), 100u);
  reader_.Consume(100);
  header_.tail.store(99);
  EXPECT_EQ(reader_.Peek(1).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ByteRingTest, AnImpossibleHeadIsAnError) {
  ASSERT_EQ(*writer_.Write(Bytes(0, kCapacity)), kCapacity);
  header_.head.store(kCapacity + 1);
  EXPECT_EQ(writer_.Write(Bytes(0, 1)).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ByteRingTest, ReaderIsWokenOnlyWhenItSleeps) {
  ASSERT_EQ(*writer_.Write(Bytes(0, 1)), 1u);
  EXPECT_EQ(writer_.ReaderToWake(), 0u);
  reader_.SetWaits(2);
  EXPECT_TRUE(reader_.Moved());
  EXPECT_EQ(writer_.ReaderToWake(), 2u);
  EXPECT_EQ(writer_.ReaderToWake(), 0u);
}

TEST_F(ByteRingTest, WriterIsWokenForHalfTheRingOrBeforeTheReaderSleeps) {
  ASSERT_EQ(*writer_.Write(Bytes(0, kCapacity)), kCapacity);
  ASSERT_EQ(*writer_.Write(Bytes(0, 1)), 0u);
  writer_.SetWaits(1);
  EXPECT_FALSE(writer_.Moved());
  EXPECT_EQ(reader_.WriterToWake(RingReader::Reason::kAboutToSleep), 0u);  // No room yet.
  ASSERT_EQ(reader_.Peek(kCapacity)->size(), kCapacity);
  reader_.Consume(10);
  EXPECT_TRUE(writer_.Moved());
  EXPECT_EQ(reader_.WriterToWake(RingReader::Reason::kConsumed), 0u);
  EXPECT_EQ(reader_.WriterToWake(RingReader::Reason::kAboutToSleep), 1u);
  writer_.SetWaits(1);
  reader_.Consume(kCapacity / 2 - 10);
  EXPECT_EQ(reader_.WriterToWake(RingReader::Reason::kConsumed), 1u);
}

TEST_F(ByteRingTest, TwoThreadsAgree) {
  constexpr uint64_t kBytes = 2'000'000;
  std::thread writing([this] {
    for (uint64_t written = 0; written < kBytes;) {
      written += *writer_.Write(Bytes(written, std::min<uint64_t>(kBytes - written, 200)));
      if (written % 7 == 0) std::this_thread::yield();
    }
  });
  for (uint64_t read = 0; read < kBytes;) {
    const auto bytes = *reader_.Peek(150);
    if (bytes.empty()) std::this_thread::yield();
    ASSERT_EQ(std::memcmp(bytes.data(), Bytes(read, bytes.size()).data(), bytes.size()), 0);
    reader_.Consume(bytes.size());
    read += bytes.size();
  }
  writing.join();
}

}  // namespace
}  // namespace muster
