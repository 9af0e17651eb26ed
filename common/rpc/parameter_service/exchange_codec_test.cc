#include "common/rpc/parameter_service/exchange_codec.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/philox.h"
#include "gmock/gmock.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

v1::ExchangeRequest Header() {
  v1::ExchangeRequest header;
  header.set_request_id(300);
  header.set_job_id("job-7");
  header.set_generation(2);
  header.set_partition(5);
  header.set_clock(1ull << 40);
  header.mutable_dense_push()->set_first_block(1);
  header.mutable_dense_push()->set_blocks(4);
  header.mutable_dense_push()->set_examples(64);
  return header;
}

std::string Flatten(const Payload& payload) {
  std::string bytes(payload.size(), '\0');
  payload.CopyTo(bytes.data());
  return bytes;
}

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// The bytes in slices of `step` bytes, as a transport might deliver them.
grpc::ByteBuffer Cut(const std::string& bytes, size_t step) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += step) {
    slices.emplace_back(bytes.data() + at, std::min(step, bytes.size() - at));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + 7);
  return bytes;
}

Payload PayloadOf(const std::string& bytes) {
  return Payload::Copy(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
}

class CutTest : public ::testing::TestWithParam<std::tuple<size_t, size_t>> {};

TEST_P(CutTest, WhatIsEncodedIsDecodedHoweverItIsCut) {
  const auto [payload_bytes, step] = GetParam();
  const std::string bytes = Pattern(payload_bytes);
  const std::string wire = Flatten(EncodeExchange(Header(), PayloadOf(bytes)));
  EXPECT_EQ(wire.size(), EncodedBytes(Header(), PayloadOf(bytes)));

  v1::ExchangeRequest header;
  Payload payload;
  ASSERT_TRUE(DecodeExchange(Cut(wire, step), &header, &payload).ok());
  EXPECT_EQ(header.SerializeAsString(), Header().SerializeAsString());
  EXPECT_EQ(Flatten(payload), bytes);
}

INSTANTIATE_TEST_SUITE_P(Cuts, CutTest,
                         ::testing::Combine(::testing::Values(0, 1, 127, 128, 5000, 100000),
                                            ::testing::Values(1, 2, 3, 7, 23, 24, 1000, 1 << 20)));

TEST(ExchangeCodecTest, IsPlainProtobufToTheRest) {
  const std::string bytes = Pattern(1000);
  v1::ExchangeRequest whole;
  ASSERT_TRUE(whole.ParseFromString(Flatten(EncodeExchange(Header(), PayloadOf(bytes)))));
  EXPECT_EQ(whole.payload(), bytes);
  whole.clear_payload();
  EXPECT_EQ(whole.SerializeAsString(), Header().SerializeAsString());
}

TEST(ExchangeCodecTest, TakesFieldsInAnyOrderAndTheLastOfRepeatedPayloads) {
  v1::ExchangeRequest payload_only;
  payload_only.set_payload(Pattern(50));
  v1::ExchangeRequest last_payload;
  last_payload.set_payload("last");
  const std::string wire = payload_only.SerializeAsString() + Header().SerializeAsString() +
                           last_payload.SerializeAsString();
  for (size_t step : {1, 5, 1000}) {
    v1::ExchangeRequest header;
    Payload payload;
    ASSERT_TRUE(DecodeExchange(Cut(wire, step), &header, &payload).ok());
    EXPECT_EQ(Flatten(payload), "last");
    EXPECT_EQ(header.SerializeAsString(), Header().SerializeAsString());
  }
}

TEST(ExchangeCodecTest, AnEmptyMessageIsAnEmptyHeader) {
  v1::ExchangeReply header;
  Payload payload;
  ASSERT_TRUE(DecodeExchange(Cut("", 1), &header, &payload).ok());
  EXPECT_EQ(payload.size(), 0u);
  EXPECT_EQ(header.ByteSizeLong(), 0u);
}

TEST(ExchangeCodecTest, DoesNotCopyThePayload) {
  const Payload sent = PayloadOf(Pattern(100000));
  const grpc::ByteBuffer buffer = EncodeExchange(Header(), sent);
  v1::ExchangeRequest header;
  Payload received;
  ASSERT_TRUE(DecodeExchange(buffer, &header, &received).ok());
  ASSERT_EQ(received.spans().size(), 1u);
  EXPECT_EQ(received.spans()[0].data(), sent.spans()[0].data());
}

TEST(ExchangeCodecTest, HoldsTheOwnerUntilTheLastSliceIsGone) {
  auto owner = std::make_shared<std::string>(Pattern(5000));
  std::weak_ptr<std::string> watched = owner;
  Payload received;
  {
    const auto* data = reinterpret_cast<const std::byte*>(owner->data());
    Payload sent({absl::MakeConstSpan(data, 2000), absl::MakeConstSpan(data + 2000, 3000)}, owner);
    owner.reset();
    grpc::ByteBuffer buffer = EncodeExchange(Header(), sent);
    sent = {};
    EXPECT_FALSE(watched.expired());
    v1::ExchangeRequest header;
    ASSERT_TRUE(DecodeExchange(buffer, &header, &received).ok());
  }
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(Flatten(received), Pattern(5000));
  received = {};
  EXPECT_TRUE(watched.expired());
}

TEST(ExchangeCodecTest, NamesWhatIsMalformed) {
  const std::string good = Flatten(EncodeExchange(Header(), PayloadOf(Pattern(100))));
  const struct {
    std::string wire;
    const char* message;
  } cases[] = {
      {good.substr(0, good.size() - 1), "cut short"},  // Payload ends early.
      {std::string("\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
       "cut short"},  // Length 2^64 - 1.
      {std::string("\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "cut short"},  // Over 64 bits.
      {std::string("\x08\xff"), "cut short"},               // Endless varint.
      {std::string("\x09\x01", 2), "cut short"},            // 64-bit field of one byte.
      {std::string("\x0d\x01", 2), "cut short"},            // 32-bit field of one byte.
      {std::string("\0\0", 2), "bad field tag"},            // Field number 0.
      {std::string("\x0b\x0c"), "wire type"},               // A group.
      {std::string("\x0f"), "wire type"},                   // Wire type 7.
      {std::string("\x42\x02\x08\xff"), "does not parse"},  // A sub-message that is cut.
  };
  for (const auto& c : cases) {
    for (size_t step : {1, 1000}) {
      v1::ExchangeRequest header;
      Payload payload;
      const absl::Status status = DecodeExchange(Cut(c.wire, step), &header, &payload);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
    }
  }
}

// Whatever arrives, decoding agrees with protobuf's own parser on what is well-formed, and on the
// contents; groups are the exception, which protobuf skips and we refuse.
TEST(ExchangeCodecTest, MutatedMessagesAreParsedAsProtobufDoesOrRefused) {
  const Philox random(20240601);
  uint64_t draw = 0;
  const std::string good = Flatten(EncodeExchange(Header(), PayloadOf(Pattern(60))));
  int parsed = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string wire = good;
    const int changes = 1 + random.Below(4, draw++);
    for (int i = 0; i < changes && !wire.empty(); ++i) {
      const size_t at = random.Below(wire.size(), draw++);
      switch (random.Below(3, draw++)) {
        case 0:
          wire[at] = static_cast<char>(random.Uint64(draw++));
          break;
        case 1:
          wire.erase(at, 1 + random.Below(8, draw++));
          break;
        default:
          wire.insert(at, 1, static_cast<char>(random.Uint64(draw++)));
      }
    }
    v1::ExchangeRequest header, expected;
    Payload payload;
    const absl::Status status =
        DecodeExchange(Cut(wire, 1 + random.Below(40, draw++)), &header, &payload);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      const bool stricter = absl::StrContains(status.message(), "wire type") ||
                            absl::StrContains(status.message(), "bad field tag");
      EXPECT_TRUE(stricter || !expected.ParseFromString(wire)) << status;
      ++refused;
      continue;
    }
    ASSERT_TRUE(expected.ParseFromString(wire));
    EXPECT_EQ(Flatten(payload), expected.payload());
    expected.clear_payload();
    EXPECT_EQ(header.SerializeAsString(), expected.SerializeAsString());
    ++parsed;
  }
  EXPECT_GT(parsed, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace muster
