#include "common/base/gathered_payload.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

class GatheredPayloadTest : public ::testing::Test {
 protected:
  // 64 KiB of bytes in spans of so many.
  static Payload InSpans(size_t bytes) {
    auto memory = std::make_shared<std::vector<std::byte>>(64 << 10);
    for (size_t i = 0; i < memory->size(); ++i) (*memory)[i] = static_cast<std::byte>(i * 7 / 3);
    std::vector<Payload::Span> spans;
    for (size_t at = 0; at < memory->size(); at += bytes) {
      spans.emplace_back(memory->data() + at, std::min(bytes, memory->size() - at));
    }
    return Payload(spans, memory);
  }

  static std::vector<std::byte> Bytes(const Payload& payload) {
    std::vector<std::byte> bytes(payload.size());
    payload.CopyTo(bytes.data());
    return bytes;
  }

  const std::shared_ptr<BufferPool> pool_ = BufferPool::Create(1 << 20);
};

TEST_F(GatheredPayloadTest, HoldsTheSameBytesInOneSpanOfItsOwn) {
  for (const size_t bytes : {1, 255, 256, 64 << 10}) {
    const Payload payload = InSpans(bytes);
    const Payload gathered = GatherPayload(payload, *pool_);
    ASSERT_EQ(gathered.spans().size(), 1);
    EXPECT_EQ(Bytes(gathered), Bytes(payload));
    EXPECT_NE(gathered.spans()[0].data(), payload.spans()[0].data());
  }
  EXPECT_EQ(GatherPayload(Payload(), *pool_).size(), 0);
}

TEST_F(GatheredPayloadTest, TellsShortSpans) {
  EXPECT_TRUE(InShortSpans(InSpans(256)));
  EXPECT_FALSE(InShortSpans(InSpans(4 << 10)));
  EXPECT_FALSE(InShortSpans(InSpans(64 << 10)));
  EXPECT_FALSE(InShortSpans(Payload()));
}

TEST_F(GatheredPayloadTest, ReadsOnByAnyLength) {
  const Payload payload = InSpans(256);
  const std::vector<std::byte> expected = Bytes(payload);
  for (const size_t length : {1, 255, 256, 257, 10000}) {
    std::vector<std::byte> read(payload.size());
    Payload::Position position;
    for (size_t at = 0; at < read.size(); at += length) {
      payload.Read(position, std::min(length, read.size() - at), read.data() + at);
    }
    EXPECT_EQ(read, expected);
  }
}

}  // namespace
}  // namespace muster
