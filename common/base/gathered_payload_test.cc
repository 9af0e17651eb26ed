#include "common/base/gathered_payload.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

class GatheredPayloadTest : public ::testing::Test {
 protected:
  // 64 KiB of bytes in pieces of so many.
  static Payload InPieces(size_t bytes) {
    auto memory = std::make_shared<std::vector<std::byte>>(64 << 10);
    for (size_t i = 0; i < memory->size(); ++i) (*memory)[i] = static_cast<std::byte>(i * 7 / 3);
    std::vector<Payload::Piece> pieces;
    for (size_t at = 0; at < memory->size(); at += bytes) {
      pieces.emplace_back(memory->data() + at, std::min(bytes, memory->size() - at));
    }
    return Payload(pieces, memory);
  }

  static std::vector<std::byte> Bytes(const Payload& payload) {
    std::vector<std::byte> bytes(payload.size());
    payload.CopyTo(bytes.data());
    return bytes;
  }

  const std::shared_ptr<BufferPool> pool_ = BufferPool::Create(1 << 20);
};

TEST_F(GatheredPayloadTest, HoldsTheSameBytesInOnePieceOfItsOwn) {
  for (const size_t bytes : {1, 255, 256, 64 << 10}) {
    const Payload payload = InPieces(bytes);
    const Payload gathered = GatherPayload(payload, *pool_);
    ASSERT_EQ(gathered.pieces().size(), 1);
    EXPECT_EQ(Bytes(gathered), Bytes(payload));
    EXPECT_NE(gathered.pieces()[0].data(), payload.pieces()[0].data());
  }
  EXPECT_EQ(GatherPayload(Payload(), *pool_).size(), 0);
}

TEST_F(GatheredPayloadTest, TellsShortPieces) {
  EXPECT_TRUE(InShortPieces(InPieces(256)));
  EXPECT_FALSE(InShortPieces(InPieces(4 << 10)));
  EXPECT_FALSE(InShortPieces(InPieces(64 << 10)));
  EXPECT_FALSE(InShortPieces(Payload()));
}

TEST_F(GatheredPayloadTest, ReadsOnInStretchesOfAnyLength) {
  const Payload payload = InPieces(256);
  const std::vector<std::byte> expected = Bytes(payload);
  for (const size_t stretch : {1, 255, 256, 257, 10000}) {
    std::vector<std::byte> read(payload.size());
    Payload::Position position;
    for (size_t at = 0; at < read.size(); at += stretch) {
      payload.Read(position, std::min(stretch, read.size() - at), read.data() + at);
    }
    EXPECT_EQ(read, expected);
  }
}

}  // namespace
}  // namespace muster
