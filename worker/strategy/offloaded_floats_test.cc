#include "worker/strategy/offloaded_floats.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kFloats = (1 << 20) + 5;
constexpr size_t kRange = 100'000;

// Returns the resident bytes of the mapping that holds an address.
uint64_t ResidentBytes(const void* address) {
  std::ifstream mappings("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  bool found = false;
  std::string line;
  while (std::getline(mappings, line)) {
    uintptr_t begin = 0, end = 0;
    uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      found = begin <= wanted && wanted < end;
    } else if (found && std::sscanf(line.c_str(), "Rss: %lu", &kib) == 1) {
      return kib * 1024;
    }
  }
  return 0;
}

// Returns what the system says of the open file that was made in the folder.
struct stat FileIn(const std::string& folder) {
  struct stat file = {};
  const std::string real = std::filesystem::canonical(folder);
  for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string path = std::filesystem::read_symlink(open.path(), gone);
    if (path.rfind(real, 0) == 0) stat(open.path().c_str(), &file);
  }
  return file;
}

// Adds 1 to all floats, range by range. Returns the most bytes that were mapped.
uint64_t PassOver(const OffloadedFloats& floats) {
  uint64_t most = 0;
  for (size_t begin = 0; begin < kFloats; begin += kRange) {
    const size_t end = std::min(kFloats, begin + kRange);
    const size_t next = end == kFloats ? 0 : end;
    floats.Enter({begin, end}, {next, std::min(kFloats, next + kRange)});
    for (float& value : floats.values().subspan(begin, end - begin)) value += 1;
    most = std::max(most, ResidentBytes(floats.values().data()));
    floats.Leave({begin, end});
  }
  return most;
}

TEST(OffloadedFloatsTest, HasOneRangeInMemoryAtATime) {
  const TempFolder folder;
  const auto floats = OffloadedFloats::Create(folder.path(), kFloats);
  ASSERT_EQ(floats.status(), absl::OkStatus());
  ASSERT_EQ((*floats)->values().size(), kFloats);
  for (int pass = 0; pass < 3; ++pass) {
    // The range's pages, and at most one more at either end.
    EXPECT_LE(PassOver(**floats), kRange * sizeof(float) + 2 * 4096) << pass;
    EXPECT_EQ(ResidentBytes((*floats)->values().data()), 0) << pass;
  }
  for (size_t i = 0; i < kFloats; ++i) ASSERT_EQ((*floats)->values()[i], 3) << i;
}

TEST(OffloadedFloatsTest, ItsFileHasNoName) {
  const TempFolder folder;
  const auto floats = OffloadedFloats::Create(folder.path(), kFloats);
  ASSERT_EQ(floats.status(), absl::OkStatus());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(OffloadedFloatsTest, ReservesAllOfItsFile) {
  const TempFolder folder;
  const auto floats = OffloadedFloats::Create(folder.path(), kFloats);
  ASSERT_EQ(floats.status(), absl::OkStatus());
  EXPECT_EQ(OffloadedBytes(kFloats), (4 << 20) + 4096);
  const struct stat file = FileIn(folder.path());
  EXPECT_EQ(file.st_size, OffloadedBytes(kFloats));
  EXPECT_GE(file.st_blocks * 512, file.st_size);
}

// More floats than any disk has room for.
TEST(OffloadedFloatsTest, AFullDiskIsAnErrorAtTheStart) {
  const TempFolder folder;
  const absl::Status status = OffloadedFloats::Create(folder.path(), size_t{1} << 50).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("reserve 4.0 PiB"), HasSubstr(folder.path()), HasSubstr("free space")));
}

TEST(OffloadedFloatsTest, LooksForRoomForLaterFiles) {
  const TempFolder folder;
  EXPECT_EQ(CheckRoomForNewFiles(folder.path(), 4096), absl::OkStatus());
  const absl::Status full = CheckRoomForNewFiles(folder.path(), size_t{1} << 52);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()),
              AllOf(HasSubstr("keep 4.0 PiB free"), HasSubstr(folder.path())));
  EXPECT_EQ(CheckRoomForNewFiles(folder.path() + "/none", 1).code(), absl::StatusCode::kNotFound);
}

TEST(OffloadedFloatsTest, AFolderThatIsNotThereIsAnError) {
  const TempFolder folder;
  const absl::Status status = OffloadedFloats::Create(folder.path() + "/none", 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder.path() + "/none"));
}

TEST(OffloadedFloatsTest, AFolderInMemoryIsRefused) {
  const absl::Status status = OffloadedFloats::Create("/dev/shm", kFloats).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is itself in memory"));
}

TEST(OffloadedFloatsTest, MayBeEmpty) {
  const TempFolder folder;
  const auto floats = OffloadedFloats::Create(folder.path(), 0);
  ASSERT_EQ(floats.status(), absl::OkStatus());
  EXPECT_TRUE((*floats)->values().empty());
  (*floats)->Enter({}, {});
  (*floats)->Leave({});
}

}  // namespace
}  // namespace muster
