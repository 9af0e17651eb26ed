#include "worker/collectives/transport/pipes/stream_pipe.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

// Gives bytes in pieces of the sizes it is told; byte i of the stream is i mod 251.
class FakeStream final : public ByteStream {
 public:
  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes, Push) override {
    const size_t taken = std::min(bytes.size(), room);
    room -= taken;
    return taken;
  }
  absl::Status Flush() override { return absl::OkStatus(); }
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override {
    if (arrived == 0 && closed) return absl::UnavailableError("closed");
    const size_t length = std::min(out.size(), arrived);
    for (size_t i = 0; i < length; ++i) out[i] = static_cast<std::byte>((position + i) % 251);
    position += length;
    arrived -= length;
    return length;
  }
  int descriptor() const override { return 0; }
  bool HasHiddenBytes() const override { return false; }
  const char* name() const override { return "fake"; }

  size_t arrived = 0;
  bool closed = false;
  uint64_t position = 0;
  size_t room = 0;
};

class StreamPipeTest : public testing::Test {
 protected:
  void ExpectBytes(absl::Span<const std::byte> bytes, uint64_t begin) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(bytes[i], static_cast<std::byte>((begin + i) % 251)) << begin + i;
    }
  }

  Doorbell bell_ = Doorbell::Create().value();
  GroupHealth health_{bell_, 2};
  FakeStream* stream_ = new FakeStream();
  StreamPipe pipe_{std::unique_ptr<ByteStream>(stream_), health_};
};

TEST_F(StreamPipeTest, ElementsAreWholeAndAlignedHoweverTheyArrive) {
  std::mt19937 random(1);
  uint64_t seen = 0;
  while (seen < 3'000'000) {
    stream_->arrived += random() % (random() % 3 == 0 ? 100'000 : 13);
    const auto bytes = pipe_.Peek(1 + random() % 400'000).value();
    ASSERT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 64, seen % 64);
    ExpectBytes(bytes, seen);
    // Elements of 8 bytes; what is left of one comes again.
    const size_t whole = bytes.size() / 8 * 8;
    pipe_.Consume(whole);
    seen += whole;
  }
}

TEST_F(StreamPipeTest, ReadAndPeekShareOneStream) {
  std::mt19937 random(2);
  uint64_t seen = 0;
  std::vector<std::byte> out(50'000);
  while (seen < 3'000'000) {
    stream_->arrived += random() % 60'000;
    if (random() % 2 == 0) {
      const auto bytes = pipe_.Peek(1 + random() % 1000).value();
      ExpectBytes(bytes, seen);
      const size_t consumed = bytes.empty() ? 0 : 1 + random() % bytes.size();
      pipe_.Consume(consumed);
      seen += consumed;
    } else {
      const size_t got = pipe_.Read(absl::MakeSpan(out).first(1 + random() % out.size())).value();
      ExpectBytes(absl::MakeConstSpan(out).first(got), seen);
      seen += got;
    }
  }
}

TEST_F(StreamPipeTest, WhatCameBeforeTheEndIsStillThere) {
  stream_->arrived = 100;
  stream_->closed = true;
  ASSERT_EQ(pipe_.Peek(10)->size(), 10u);
  std::vector<std::byte> out(200);
  EXPECT_EQ(*pipe_.Read(absl::MakeSpan(out)), 100u);
  EXPECT_EQ(*pipe_.Read(absl::MakeSpan(out)), 0u);
  // Whoever waits finds out why.
  EXPECT_EQ(pipe_.broken().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(health_.ok());
}

TEST_F(StreamPipeTest, WritesAsMuchAsThereIsRoomFor) {
  stream_->room = 5'000;
  const std::vector<std::byte> bytes(3'000);
  EXPECT_EQ(*pipe_.Write(bytes), 3'000u);
  EXPECT_EQ(*pipe_.Write(bytes), 2'000u);
  EXPECT_EQ(*pipe_.Write(bytes), 0u);
}

TEST_F(StreamPipeTest, FailsWithTheGroup) {
  health_.Fail(absl::AbortedError("enough"));
  std::vector<std::byte> out(1);
  EXPECT_EQ(pipe_.Write(out).status(), absl::AbortedError("enough"));
  EXPECT_EQ(pipe_.Peek(1).status(), absl::AbortedError("enough"));
  EXPECT_EQ(pipe_.Read(absl::MakeSpan(out)).status(), absl::AbortedError("enough"));
}

}  // namespace
}  // namespace muster
