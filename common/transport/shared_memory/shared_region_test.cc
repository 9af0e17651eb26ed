#include "common/transport/shared_memory/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/transport/shared_memory/copy_descriptor_for_testing.h"
#include "gtest/gtest.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace muster {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
// Seven huge pages, and a part of one.
constexpr size_t kLarge = 7 * kHugePage + 5'000;

// Of the mapping that begins there: what the kernel has put onto huge pages.
size_t HugeBytesAt(const void* begin) {
  std::ifstream maps("/proc/self/smaps");
  const std::string start = absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(begin)), "-");
  size_t kib = 0;
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    if (absl::StartsWith(line, start)) found = true;
    if (found && std::sscanf(line.c_str(), "ShmemPmdMapped: %zu kB", &kib) == 1) break;
  }
  return kib << 10;
}

TEST(SharedRegionTest, BothSeeTheSameBytes) {
  SharedRegion one = SharedRegion::Create(10'000).value();
  SharedRegion other = SharedRegion::Map(CopyDescriptor(one.descriptor()), 10'000).value();
  EXPECT_NE(one.data(), other.data());
  EXPECT_EQ(other.data()[9'999], std::byte{0});
  one.data()[9'999] = std::byte{7};
  EXPECT_EQ(other.data()[9'999], std::byte{7});
  one = SharedRegion();
  EXPECT_EQ(other.data()[9'999], std::byte{7});
}

TEST(SharedRegionTest, LiesOnHugePagesWhereItIsToAndTheyAreToBeHad) {
  const SharedRegion one = SharedRegion::Create(kLarge).value();
  const SharedRegion other = SharedRegion::Map(CopyDescriptor(one.descriptor()), kLarge).value();
  for (size_t i = 0; i < kLarge; i += 1'000) one.data()[i] = static_cast<std::byte>(i % 251);
  // Pages 2 to 4 are covered whole, and nothing else.
  one.UseHugePages(kHugePage + 4096, 4 * kHugePage + 8192);
  for (size_t i = 0; i < kLarge; i += 1'000) {
    ASSERT_EQ(other.data()[i], static_cast<std::byte>(i % 251)) << i;
  }
  one.data()[3 * kHugePage] = std::byte{77};
  EXPECT_EQ(other.data()[3 * kHugePage], std::byte{77});
  const size_t huge = HugeBytesAt(one.data());
  if (huge == 0 && madvise(one.data() + 2 * kHugePage, kHugePage, MADV_COLLAPSE) != 0) {
    GTEST_SKIP() << "no huge pages for shared memory on this system: " << std::strerror(errno);
  }
  EXPECT_EQ(huge, 3 * kHugePage);
  // On the other side, too.
  EXPECT_GT(HugeBytesAt(other.data()), 0u);
}

TEST(SharedRegionTest, ALargeOneBeginsAtAHugePage) {
  const SharedRegion one = SharedRegion::Create(kLarge, SharedRegion::Pages::kOnUse).value();
  const SharedRegion other =
      SharedRegion::Map(CopyDescriptor(one.descriptor()), kLarge, SharedRegion::Pages::kOnUse)
          .value();
  for (const SharedRegion* region : {&one, &other}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region->data()) % kHugePage, 0u);
  }
  one.data()[kLarge - 1] = std::byte{7};
  EXPECT_EQ(other.data()[kLarge - 1], std::byte{7});
}

TEST(SharedRegionTest, NobodyCanTruncateIt) {
  const SharedRegion region = SharedRegion::Create(8'192).value();
  EXPECT_NE(ftruncate(region.descriptor(), 0), 0);
  EXPECT_NE(ftruncate(region.descriptor(), 1 << 20), 0);
}

TEST(SharedRegionTest, RefusesWhatIsNotSealedOrOfAnotherSize) {
  Descriptor unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4'096), 0);
  EXPECT_EQ(SharedRegion::Map(std::move(unsealed), 4'096).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const SharedRegion region = SharedRegion::Create(4'096).value();
  EXPECT_EQ(SharedRegion::Map(CopyDescriptor(region.descriptor()), 8'192).status().code(),
            absl::StatusCode::kFailedPrecondition);
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  Descriptor read_end(pipes[0]), write_end(pipes[1]);
  EXPECT_FALSE(SharedRegion::Map(std::move(read_end), 4'096).ok());
}

TEST(SharedRegionTest, TooMuchIsAnErrorAndNotTheEnd) {
  EXPECT_EQ(SharedRegion::Create(size_t{1} << 60).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace muster
