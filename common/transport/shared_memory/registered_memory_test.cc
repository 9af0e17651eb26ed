#include "common/transport/shared_memory/registered_memory.h"

#include <unistd.h>

#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "common/transport/descriptor.h"
#include "common/transport/shared_memory/copy_descriptor_for_testing.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr size_t kBytes = 1 << 20;

TEST(RegisteredMemoryTest, GivesWhatNobodyWasGivenBefore) {
  const auto memory = RegisteredMemory::Create(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::byte* end = nullptr;
  for (const size_t bytes : {1, 64, 100, 5000, 4096, 0, 200'000}) {
    std::byte* const place = (*memory)->Take(bytes);
    ASSERT_NE(place, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(place) % 64, 0u);
    EXPECT_GE(place, end);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(place[i], std::byte{0});
    if (bytes > 0) std::memset(place, 0xff, bytes);
    end = place + bytes;
  }
}

TEST(RegisteredMemoryTest, GivesNothingWhereTheRestIsShorter) {
  const auto memory = RegisteredMemory::Create(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->Take(kBytes + 1), nullptr);
  EXPECT_EQ((*memory)->Take(std::numeric_limits<size_t>::max()), nullptr);
  EXPECT_NE((*memory)->Take(kBytes - 1), nullptr);
  EXPECT_EQ((*memory)->Take(64), nullptr);
}

TEST(RegisteredMemoryTest, ThePeerSeesAndWritesWhatLiesThere) {
  const auto memory = RegisteredMemory::Create(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto peer = PeerMemory::Map(CopyDescriptor((*memory)->descriptor()), (*memory)->bytes());
  ASSERT_TRUE(peer.ok()) << peer.status();
  (*memory)->Take(10'000);
  std::byte* const place = (*memory)->Take(300);
  const auto offset = (*memory)->OffsetOf({place, 300});
  ASSERT_TRUE(offset.has_value());
  place[299] = std::byte{7};
  const auto there = (*peer)->At(*offset, 300);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ((*there)[299], std::byte{7});
  (*there)[0] = std::byte{9};
  EXPECT_EQ(place[0], std::byte{9});
}

TEST(RegisteredMemoryTest, OnlyWhatLiesWhollyInItHasAnOffset) {
  const auto memory = RegisteredMemory::Create(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const std::byte* const begin = (*memory)->Take(kBytes);
  EXPECT_EQ((*memory)->OffsetOf({begin, kBytes}), 0u);
  EXPECT_EQ((*memory)->OffsetOf({begin + 5, 7}), 5u);
  EXPECT_FALSE((*memory)->OffsetOf({begin - 1, 2}).has_value());
  EXPECT_FALSE((*memory)->OffsetOf({begin + 1, kBytes}).has_value());
  const std::vector<std::byte> other(10);
  EXPECT_FALSE((*memory)->OffsetOf(other).has_value());
}

TEST(RegisteredMemoryTest, ThePeerRefusesRangesOutsideOfIt) {
  const auto memory = RegisteredMemory::Create(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto peer = PeerMemory::Map(CopyDescriptor((*memory)->descriptor()), (*memory)->bytes());
  ASSERT_TRUE(peer.ok()) << peer.status();
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  EXPECT_TRUE((*peer)->At(kBytes - 1, 1).ok());
  for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 0}, {0, kBytes + 1}, {kBytes, 1}, {kBytes - 1, 2}, {kMost, 1}, {1, kMost}}) {
    EXPECT_TRUE(absl::IsInvalidArgument((*peer)->At(offset, bytes).status()))
        << offset << " " << bytes;
  }
}

TEST(RegisteredMemoryTest, ThePeerRefusesAnotherSizeThanWasSaid) {
  const auto memory = RegisteredMemory::Create(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(
      PeerMemory::Map(CopyDescriptor((*memory)->descriptor()), 2 * kBytes).status()));
}

}  // namespace
}  // namespace muster
