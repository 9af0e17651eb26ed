#include "common/transport/data_channel/frame.h"

#include <array>
#include <cstring>
#include <string>

#include "common/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::array<std::byte, kFrameBytes> Encoded(const Frame& frame) {
  std::array<std::byte, kFrameBytes> bytes;
  EncodeFrame(frame, bytes.data());
  return bytes;
}

TEST(FrameTest, WhatIsEncodedIsDecoded) {
  for (const FrameKind kind : {FrameKind::kMessage, FrameKind::kGoodbye}) {
    for (const PayloadPlace place : {PayloadPlace::kFollows, PayloadPlace::kArena}) {
      for (const uint32_t bytes : {0u, 1u, 65536u, kMaxFrameHeaderBytes}) {
        const Frame sent{kind, place, bytes, bytes * 3};
        const auto frame = DecodeFrame(Encoded(sent).data());
        ASSERT_TRUE(frame.ok()) << frame.status();
        EXPECT_EQ(frame->kind, kind);
        EXPECT_EQ(frame->place, place);
        EXPECT_EQ(frame->header_bytes, bytes);
        EXPECT_EQ(frame->payload_bytes, bytes * 3);
      }
    }
  }
}

TEST(FrameTest, LiesOnTheWireAsDocumented) {
  const auto bytes = Encoded({FrameKind::kMessage, PayloadPlace::kArena, 0x0102, 0x030405});
  const std::string wire(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(wire, std::string("MuF1\x01\x01\0\0\x02\x01\0\0\x05\x04\x03\0", 16));
}

TEST(FrameTest, NamesWhatIsMalformed) {
  const struct {
    size_t offset;
    uint8_t value;
    const char* message;
  } cases[] = {
      {0, 0x4e, "it starts with"},
      {3, 0x32, "it starts with"},
      {4, 0, "unknown kind 0"},
      {4, 3, "unknown kind 3"},
      {5, 2, "unknown place 2"},
      {6, 1, "not zero"},
      {7, 1, "not zero"},
      {11, 1, "a header of 16777217 bytes"},
      {15, 0xff, "a payload of 4278190081 bytes"},
  };
  for (const auto& c : cases) {
    auto bytes = Encoded({FrameKind::kMessage, PayloadPlace::kFollows, 1, 1});
    bytes[c.offset] = std::byte{c.value};
    const auto frame = DecodeFrame(bytes.data());
    EXPECT_EQ(frame.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(frame.status().message()), HasSubstr(c.message));
  }
}

TEST(FrameTest, WhateverIsDecodedIsWithinTheLimits) {
  const Philox random(20261120);
  for (int i = 0; i < 100'000; ++i) {
    auto bytes = Encoded({FrameKind::kMessage, PayloadPlace::kFollows, 100, 100});
    for (int change = 0; change < 1 + i % 4; ++change) {
      const auto word = static_cast<uint32_t>(random.Uint64(i, change));
      bytes[word % kFrameBytes] = static_cast<std::byte>(word >> 8);
    }
    const auto frame = DecodeFrame(bytes.data());
    if (!frame.ok()) continue;
    EXPECT_LE(frame->header_bytes, kMaxFrameHeaderBytes);
    EXPECT_LE(frame->payload_bytes, kMaxFramePayloadBytes);
  }
}

TEST(FrameTest, GoodbyesCarryTheirStatus) {
  const absl::Status status = absl::UnavailableError("the server is shutting down");
  EXPECT_EQ(DecodeGoodbye(EncodeGoodbye(status)), status);
  const absl::Status longest = absl::InternalError(std::string(100'000, 'x'));
  EXPECT_EQ(DecodeGoodbye(EncodeGoodbye(longest)), absl::InternalError(std::string(4096, 'x')));
}

TEST(FrameTest, AGoodbyeIsAnErrorWhateverItHolds) {
  for (const std::string& bytes :
       {std::string(), std::string("x"), EncodeGoodbye(absl::OkStatus()), std::string(8, '\xff'),
        EncodeGoodbye(absl::InternalError("y")) + "z"}) {
    EXPECT_EQ(DecodeGoodbye(bytes).code(), absl::StatusCode::kUnavailable);
  }
}

}  // namespace
}  // namespace muster
