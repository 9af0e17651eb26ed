#include "worker/collectives/transport/pipes/striped_stream.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/byte_stream.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Byte `i` of a stream; `way` tells the two directions apart.
std::byte ByteAt(int way, uint64_t i) {
  return static_cast<std::byte>(((i + 1) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(way)) >> 56);
}

std::vector<std::byte> BytesAt(int way, uint64_t begin, size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = ByteAt(way, begin + i);
  return bytes;
}

// The part of the offered bytes that a connection takes, or of the wanted bytes that it gives.
using Share = std::function<size_t(size_t)>;

size_t All(size_t bytes) { return bytes; }

// One end of a connection. As TLS does, it may begin with all that it is offered.
class FakeConnection final : public ByteStream {
 public:
  using Bytes = std::deque<std::byte>;

  FakeConnection(int descriptor, Bytes& out, Bytes& in)
      : descriptor_(descriptor), out_(out), in_(in) {}

  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes, Push push) override {
    if (!fails.ok()) return fails;
    const size_t again = std::min(begun_.size(), bytes.size());
    EXPECT_TRUE(
        std::equal(begun_.begin(), begun_.begin() + static_cast<ptrdiff_t>(again), bytes.begin()))
        << "what it has begun with did not come again";
    const size_t taken = std::min(bytes.size(), takes(bytes.size()));
    out_.insert(out_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(taken));
    if (bytes.size() >= begun_.size()) begun_.assign(bytes.begin(), bytes.end());
    begun_.erase(begun_.begin(), begun_.begin() + static_cast<ptrdiff_t>(taken));
    if (taken > 0) held_back = push == Push::kLater;
    return taken;
  }
  absl::Status Flush() override {
    held_back = false;
    return fails;
  }
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override {
    if (in_.empty() && !fails.ok()) return fails;
    const size_t most = std::min(out.size(), in_.size());
    const size_t given = std::min(most, gives(most));
    const auto end = in_.begin() + static_cast<ptrdiff_t>(given);
    std::copy(in_.begin(), end, out.begin());
    in_.erase(in_.begin(), end);
    return given;
  }
  int descriptor() const override { return descriptor_; }
  bool HasHiddenBytes() const override { return hidden; }
  const char* name() const override { return "fake"; }

  Share takes = All;
  Share gives = All;
  // Once its bytes have been read.
  absl::Status fails;
  bool hidden = false;
  bool held_back = false;

 private:
  const int descriptor_;
  Bytes& out_;
  Bytes& in_;
  std::deque<std::byte> begun_;
};

// The two ends of a stream over N connections.
struct Pair {
  explicit Pair(size_t connections)
      : wires(2 * connections), near(MakeEnd(/*way=*/0)), far(MakeEnd(/*way=*/1)) {}

  // `way`: that of what it writes. Descriptors are 10, 11, ….
  StripedStream MakeEnd(int way) {
    std::vector<std::unique_ptr<ByteStream>> connections;
    const size_t count = wires.size() / 2;
    for (size_t i = 0; i < count; ++i) {
      auto& out = wires[2 * i + static_cast<size_t>(way)];
      auto& in = wires[2 * i + static_cast<size_t>(1 - way)];
      auto end = std::make_unique<FakeConnection>(10 + static_cast<int>(i), out, in);
      ends[way].push_back(end.get());
      connections.push_back(std::move(end));
    }
    return StripedStream(std::move(connections));
  }

  // Wires of the connections, both ways of each in turn.
  std::vector<FakeConnection::Bytes> wires;
  std::vector<FakeConnection*> ends[2];
  StripedStream near;
  StripedStream far;
};

class StripedStreamTest : public testing::TestWithParam<size_t> {};

// Pieces of any length, taken and given in part, and both ways at once.
TEST_P(StripedStreamTest, BytesArriveInOrderHoweverTheyAreCut) {
  const size_t count = GetParam();
  const uint64_t bytes = (3 * count + 2) * kStripeBytes + 123;
  std::mt19937 random(static_cast<uint32_t>(count));
  Pair pair(count);
  const Share some = [&random](size_t most) -> size_t {
    const uint32_t dice = random() % 4;
    return dice == 0 ? 0 : dice == 1 ? most : random() % (most + 1);
  };
  for (const auto& ends : pair.ends) {
    for (FakeConnection* const end : ends) end->takes = end->gives = some;
  }
  const auto length = [&random](uint64_t left) {
    const uint64_t most = random() % 3 == 0 ? 3 * kStripeBytes : 1000;
    return static_cast<size_t>(std::min(left, 1 + random() % most));
  };
  uint64_t written[2] = {}, read[2] = {};
  std::vector<std::byte> out(3 * kStripeBytes);
  while (read[0] < bytes || read[1] < bytes) {
    const int way = static_cast<int>(random() % 2);
    StripedStream& from = way == 0 ? pair.near : pair.far;
    StripedStream& to = way == 0 ? pair.far : pair.near;
    if (written[way] < bytes) {
      // Bytes that were not taken may come again in another part.
      const auto part = BytesAt(way, written[way], length(bytes - written[way]));
      const auto push = random() % 2 == 0 ? ByteStream::Push::kLater : ByteStream::Push::kNow;
      const absl::StatusOr<size_t> taken = from.Write(part, push);
      ASSERT_TRUE(taken.ok()) << taken.status();
      ASSERT_LE(*taken, part.size());
      written[way] += *taken;
    }
    if (random() % 4 == 0) {
      ASSERT_TRUE(from.Flush().ok());
      for (const FakeConnection* const end : pair.ends[way]) ASSERT_FALSE(end->held_back);
    }
    if (read[way] == bytes) continue;
    const auto place = absl::MakeSpan(out).first(length(bytes - read[way]));
    const absl::StatusOr<size_t> got = to.Read(place);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_LE(*got, place.size());
    const auto expected = BytesAt(way, read[way], *got);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), out.begin()))
        << "of the bytes from " << read[way];
    read[way] += *got;
  }
  for (const auto& wire : pair.wires) EXPECT_TRUE(wire.empty());
}

TEST_P(StripedStreamTest, EachConnectionHasItsTurnForAStripe) {
  const size_t count = GetParam();
  Pair pair(count);
  const auto bytes = BytesAt(0, 0, (2 * count + 1) * kStripeBytes);
  EXPECT_EQ(*pair.near.Write(bytes, ByteStream::Push::kNow), bytes.size());
  for (size_t i = 0; i < count; ++i) {
    const FakeConnection::Bytes& wire = pair.wires[2 * i];
    const size_t stripes = i == 0 ? 3 : 2;
    ASSERT_EQ(wire.size(), stripes * kStripeBytes);
    for (size_t stripe = 0; stripe < stripes; ++stripe) {
      const uint64_t place = (stripe * count + i) * kStripeBytes;
      const auto expected = BytesAt(0, place, kStripeBytes);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                             wire.begin() + static_cast<ptrdiff_t>(stripe * kStripeBytes)))
          << "stripe " << stripe << " of connection " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Connections, StripedStreamTest, testing::Values(1, 2, 3, 8),
                         testing::PrintToStringParamName());

TEST(StripedStreamOfThreeTest, AStripeRefusedInItsMiddleGoesOnWhereItWas) {
  Pair pair(3);
  FakeConnection& second = *pair.ends[0][1];
  const auto bytes = BytesAt(0, 0, 3 * kStripeBytes);
  const auto from = [&](size_t begin, size_t count) {
    return absl::MakeConstSpan(bytes).subspan(begin, count);
  };
  size_t room = 1000;
  second.takes = [&room](size_t offered) {
    const size_t taken = std::min(offered, room);
    room -= taken;
    return taken;
  };
  EXPECT_EQ(*pair.near.Write(bytes, ByteStream::Push::kNow), kStripeBytes + 1000);
  EXPECT_EQ(pair.near.write_descriptor(), 11);
  EXPECT_EQ(*pair.near.Write(from(kStripeBytes + 1000, 5), ByteStream::Push::kNow), 0u);
  EXPECT_TRUE(pair.wires[4].empty()) << "the third's turn is yet to come";
  room = kStripeBytes;
  EXPECT_EQ(*pair.near.Write(from(kStripeBytes + 1000, 50'000), ByteStream::Push::kNow), 50'000u);
  const size_t rest = 2 * kStripeBytes - 51'000;
  EXPECT_EQ(*pair.near.Write(from(kStripeBytes + 51'000, rest), ByteStream::Push::kNow), rest);
  EXPECT_EQ(pair.wires[4].size(), kStripeBytes);
  std::vector<std::byte> got(bytes.size());
  EXPECT_EQ(*pair.far.Read(absl::MakeSpan(got)), got.size());
  EXPECT_EQ(got, bytes);
}

TEST(StripedStreamOfThreeTest, NothingIsHeldBackButAtTheEndAndNotAfterAFlush) {
  Pair pair(3);
  const auto bytes = BytesAt(0, 0, kStripeBytes);
  const auto write = [&](size_t count) {
    EXPECT_EQ(*pair.near.Write(absl::MakeConstSpan(bytes).first(count), ByteStream::Push::kLater),
              count);
  };
  const auto held_back = [&] {
    std::string which;
    for (const FakeConnection* const end : pair.ends[0]) which += end->held_back ? "x" : "-";
    return which;
  };
  write(10);
  EXPECT_EQ(held_back(), "x--");
  ASSERT_TRUE(pair.near.Flush().ok());
  EXPECT_EQ(held_back(), "---");
  // More follows, but not there.
  write(10);
  write(kStripeBytes - 20);
  EXPECT_EQ(held_back(), "---");
  write(kStripeBytes - 5);
  EXPECT_EQ(held_back(), "-x-");
  write(10);
  EXPECT_EQ(held_back(), "--x");
  ASSERT_TRUE(pair.near.Flush().ok());
  EXPECT_EQ(held_back(), "---");
}

TEST(StripedStreamOfThreeTest, DescriptorsAreThoseOfTheNextByteEachWay) {
  Pair pair(3);
  EXPECT_EQ(pair.near.descriptor(), 10);
  EXPECT_EQ(pair.near.write_descriptor(), 10);
  std::vector<std::byte> bytes(kStripeBytes);
  ASSERT_TRUE(
      pair.near.Write(absl::MakeConstSpan(bytes).first(kStripeBytes - 1), ByteStream::Push::kNow)
          .ok());
  EXPECT_EQ(pair.near.write_descriptor(), 10);
  ASSERT_TRUE(pair.near.Write(absl::MakeConstSpan(bytes).first(1), ByteStream::Push::kNow).ok());
  EXPECT_EQ(pair.near.write_descriptor(), 11);
  EXPECT_EQ(pair.near.descriptor(), 10);
  EXPECT_EQ(pair.far.descriptor(), 10);
  EXPECT_EQ(*pair.far.Read(absl::MakeSpan(bytes)), kStripeBytes);
  EXPECT_EQ(pair.far.descriptor(), 11);
  EXPECT_EQ(pair.far.write_descriptor(), 10);
}

TEST(StripedStreamOfThreeTest, HiddenBytesAreThoseOfTheConnectionWhoseTurnItIs) {
  Pair pair(3);
  std::vector<std::byte> bytes(kStripeBytes);
  FakeConnection& second = *pair.ends[1][1];
  second.hidden = true;
  EXPECT_FALSE(pair.far.HasHiddenBytes());
  ASSERT_TRUE(pair.near.Write(bytes, ByteStream::Push::kNow).ok());
  ASSERT_EQ(*pair.far.Read(absl::MakeSpan(bytes)), kStripeBytes);
  EXPECT_TRUE(pair.far.HasHiddenBytes());
  second.hidden = false;
  EXPECT_FALSE(pair.far.HasHiddenBytes());
}

TEST(StripedStreamOfThreeTest, AnErrorOfOneIsThatOfAllFromItsTurnOn) {
  Pair pair(3);
  std::vector<std::byte> bytes(2 * kStripeBytes);
  pair.ends[1][1]->fails = absl::UnavailableError("reset");
  EXPECT_EQ(*pair.far.Read(absl::MakeSpan(bytes)), 0u);
  // What came before is not lost.
  ASSERT_TRUE(
      pair.near.Write(absl::MakeConstSpan(bytes).first(kStripeBytes), ByteStream::Push::kNow).ok());
  EXPECT_EQ(*pair.far.Read(absl::MakeSpan(bytes)), kStripeBytes);
  EXPECT_TRUE(pair.far.HasHiddenBytes()) << "poll does not know of the error";
  // Not even if it is not there any more.
  pair.ends[1][1]->fails = absl::OkStatus();
  const absl::Status status = pair.far.Read(absl::MakeSpan(bytes)).status();
  EXPECT_EQ(status, absl::UnavailableError("connection 2 of 3: reset"));
  EXPECT_EQ(pair.far.Write(bytes, ByteStream::Push::kNow).status(), status);
  EXPECT_EQ(pair.far.Flush(), status);
}

TEST(StripedStreamOfThreeTest, AWriteThatFailsTellsOfWhatWasTakenFirst) {
  Pair pair(3);
  std::vector<std::byte> bytes(3 * kStripeBytes);
  pair.ends[0][2]->fails = absl::UnauthenticatedError("tampered with");
  EXPECT_EQ(*pair.near.Write(bytes, ByteStream::Push::kNow), 2 * kStripeBytes);
  const absl::Status status = absl::UnauthenticatedError("connection 3 of 3: tampered with");
  EXPECT_EQ(pair.near.Write(bytes, ByteStream::Push::kNow).status(), status);
  EXPECT_EQ(pair.near.Read(absl::MakeSpan(bytes)).status(), status);
}

TEST(StripedStreamOfThreeTest, IsNamedAfterItsConnections) {
  const Pair pair(3);
  EXPECT_STREQ(pair.near.name(), "fake x 3");
}

}  // namespace
}  // namespace muster
