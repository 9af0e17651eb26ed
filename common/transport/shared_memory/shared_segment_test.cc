#include "common/transport/shared_memory/shared_segment.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

using Direction = SharedSegment::Direction;

class SharedSegmentTest : public ::testing::Test {
 protected:
  static constexpr size_t kArena = 2 << 20;

  SharedSegmentTest()
      : ours_(*SharedSegment::Create(kArena)),
        theirs_(*SharedSegment::Map(Descriptor(dup(ours_->descriptor())), kArena)),
        sender_(ours_, Direction::kToServer),
        receiver_(theirs_, Direction::kToServer) {}

  const std::shared_ptr<SharedSegment> ours_;
  const std::shared_ptr<SharedSegment> theirs_;
  ArenaSender sender_;
  ArenaReceiver receiver_;
};

TEST_F(SharedSegmentTest, DirectionsDoNotOverlap) {
  std::vector<std::pair<std::byte*, size_t>> parts;
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    parts.emplace_back(ours_->ring(direction), 4096 + kSegmentRingBytes);
    parts.emplace_back(reinterpret_cast<std::byte*>(&ours_->ledger(direction)),
                       sizeof(ArenaLedger) + kArena / kGranuleBytes * sizeof(uint32_t));
    parts.emplace_back(ours_->arena(direction), kArena);
  }
  std::sort(parts.begin(), parts.end());
  for (size_t i = 1; i < parts.size(); ++i) {
    EXPECT_LE(parts[i - 1].first + parts[i - 1].second, parts[i].first);
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(ours_->arena(Direction::kToServer)) % 64, 0u);
}

TEST_F(SharedSegmentTest, FragmentsArriveWhereTheyWereWritten) {
  uint64_t offset;
  absl::Span<std::byte> room;
  ASSERT_TRUE(sender_.Allocate(100'000, &offset, &room));
  ASSERT_EQ(room.size(), 100'000u);
  std::memset(room.data(), 7, room.size());
  const auto found = receiver_.Find(offset, room.size());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)[99'999], std::byte{7});
  EXPECT_FALSE(receiver_.Release(offset));
}

TEST_F(SharedSegmentTest, RoomComesBackInAnyOrder) {
  std::vector<uint64_t> offsets;
  uint64_t offset;
  absl::Span<std::byte> room;
  while (sender_.Allocate(kGranuleBytes, &offset, &room)) offsets.push_back(offset);
  EXPECT_EQ(offsets.size(), kArena / kGranuleBytes);
  sender_.SetWaits();
  // Every other one: no two lie side by side.
  EXPECT_TRUE(receiver_.Release(offsets[0]));
  for (size_t i = 2; i < offsets.size(); i += 2) EXPECT_FALSE(receiver_.Release(offsets[i]));
  // Not all that is wanted.
  ASSERT_TRUE(sender_.Allocate(kGranuleBytes + 1, &offset, &room));
  EXPECT_EQ(offset, offsets[0]);
  EXPECT_EQ(room.size(), kGranuleBytes);
  receiver_.Release(offsets[1]);
  receiver_.Release(offsets[3]);
  EXPECT_TRUE(sender_.Allocate(4 * kGranuleBytes, &offset, &room));
  EXPECT_EQ(offset, offsets[1]);
}

TEST_F(SharedSegmentTest, ALongPayloadGetsOneFragmentAtATime) {
  uint64_t offset;
  absl::Span<std::byte> room;
  ASSERT_TRUE(sender_.Allocate(64 << 20, &offset, &room));
  EXPECT_EQ(room.size(), kMaxFragmentBytes);
  ASSERT_TRUE(sender_.Allocate(64 << 20, &offset, &room));
  EXPECT_FALSE(sender_.Allocate(64 << 20, &offset, &room));
}

TEST_F(SharedSegmentTest, FragmentsNeverOverlapWhateverTheReceiverDoes) {
  // A receiver that gives back at random what it has, what it has not, and all twice.
  uint64_t state = 12345;
  const auto random = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
  };
  std::map<uint64_t, uint64_t> held;
  for (int i = 0; i < 20'000; ++i) {
    uint64_t offset;
    absl::Span<std::byte> room;
    if (random() % 2 == 0 && sender_.Allocate(1 + random() % 300'000, &offset, &room)) {
      ASSERT_EQ(offset % kGranuleBytes, 0u);
      ASSERT_LE(offset + room.size(), kArena);
      // The receiver has given back what this may overlap.
      const uint64_t end = offset + room.size();
      for (auto it = held.begin(); it != held.end();) {
        const bool overlaps = it->first < end && offset < it->second;
        ASSERT_FALSE(overlaps);
        ++it;
      }
      held[offset] = end;
    } else if (!held.empty()) {
      const auto it = std::next(held.begin(), random() % held.size());
      receiver_.Release(it->first);
      if (random() % 8 == 0) receiver_.Release(it->first);
      held.erase(it);
      // The middle of a fragment, or nothing at all.
      const uint64_t granule = random() % (kArena / kGranuleBytes) * kGranuleBytes;
      if (held.count(granule) == 0) receiver_.Release(granule);
    }
  }
}

TEST_F(SharedSegmentTest, RoomThatIsTakenIsSentWhereItLies) {
  const ArenaSender::Allocation room = sender_.Take(300'000);
  ASSERT_NE(room.place, nullptr);
  EXPECT_TRUE(sender_.IsTaken(room.place));
  std::memset(room.place, 7, 300'000);
  // Not given to others meanwhile, whatever the receiver says.
  receiver_.Release(room.place - ours_->arena(Direction::kToServer));
  uint64_t offset;
  absl::Span<std::byte> other;
  while (sender_.Allocate(kGranuleBytes, &offset, &other)) {
    EXPECT_TRUE(other.data() + other.size() <= room.place || room.place + 300'000 <= other.data());
  }
  const uint64_t sent = sender_.SendTaken(room.place);
  EXPECT_FALSE(sender_.IsTaken(room.place));
  const auto found = receiver_.Find(sent, 300'000);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)[299'999], std::byte{7});
  // It is the receiver's now.
  sender_.GiveUp(room);
  EXPECT_FALSE(sender_.Allocate(kGranuleBytes, &offset, &other));
  receiver_.Release(sent);
  EXPECT_TRUE(sender_.Allocate(kGranuleBytes, &offset, &other));
  EXPECT_EQ(offset, sent);
}

TEST_F(SharedSegmentTest, WhatIsTakenAndWhatReceiversKeepLeaveRoom) {
  for (size_t arena : {kMinArenaBytes, kArena, kDefaultArenaBytes, kMaxArenaBytes}) {
    EXPECT_LE(MaxTakenBytes(arena) + kGranuleBytes, NotLentBytes(arena));
    EXPECT_LE(NotLentBytes(arena), arena / 2);
  }
  EXPECT_EQ(sender_.Take(MaxTakenBytes(kArena) + 1).place, nullptr);
  const ArenaSender::Allocation room = sender_.Take(MaxTakenBytes(kArena));
  EXPECT_NE(room.place, nullptr);
  EXPECT_EQ(sender_.Take(1).place, nullptr);
  sender_.GiveUp(room);
  EXPECT_NE(sender_.Take(1).place, nullptr);
  EXPECT_EQ(sender_.Take(0).place, nullptr);
}

TEST_F(SharedSegmentTest, RoomThatIsGivenUpWakesWhoWaitsForIt) {
  const ArenaSender::Allocation first = sender_.Take(1);
  const ArenaSender::Allocation second = sender_.Take(1);
  EXPECT_FALSE(sender_.GiveUp(first)) << "nobody waits";
  sender_.SetWaits();
  EXPECT_FALSE(sender_.GiveUp(first)) << "no room came of it";
  EXPECT_TRUE(sender_.GiveUp(second));
}

TEST_F(SharedSegmentTest, RoomIsGivenUpOnce) {
  const ArenaSender::Allocation first = sender_.Take(1);
  sender_.GiveUp(first);
  const ArenaSender::Allocation second = sender_.Take(1);
  ASSERT_EQ(second.place, first.place);
  sender_.GiveUp(first);
  EXPECT_TRUE(sender_.IsTaken(second.place));
}

TEST_F(SharedSegmentTest, AFragmentOutsideTheArenaIsRefused) {
  const uint64_t huge = ~uint64_t{0};
  const struct {
    uint64_t offset, bytes;
  } cases[] = {{0, 0},
               {0, kArena + 1},
               {kArena, 1},
               {kArena - kGranuleBytes, kGranuleBytes + 1},
               {1, 1},
               {kGranuleBytes, huge},
               {huge & ~(kGranuleBytes - 1), kGranuleBytes},
               {0, huge}};
  for (const auto& c : cases) {
    EXPECT_EQ(receiver_.Find(c.offset, c.bytes).status().code(), absl::StatusCode::kDataLoss)
        << c.offset << " " << c.bytes;
  }
  EXPECT_TRUE(receiver_.Find(kArena - kGranuleBytes, kGranuleBytes).ok());
}

TEST(SharedSegmentSizeTest, SizesAreChecked) {
  for (const size_t bytes : {size_t{0}, kMinArenaBytes - kGranuleBytes, kMinArenaBytes + 1,
                             kMaxArenaBytes + kGranuleBytes, ~size_t{0}}) {
    EXPECT_EQ(SharedSegment::Create(bytes).status().code(), absl::StatusCode::kInvalidArgument);
  }
  const auto segment = SharedSegment::Create(kMinArenaBytes);
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(SharedSegment::Map(Descriptor(dup((*segment)->descriptor())), 4 * kMinArenaBytes)
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace muster
