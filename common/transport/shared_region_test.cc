#include "common/transport/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

#include "gtest/gtest.h"

namespace muster {
namespace {

Descriptor Copy(int descriptor) { return Descriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

TEST(SharedRegionTest, BothSeeTheSameBytes) {
  SharedRegion one = SharedRegion::Create(10'000).value();
  SharedRegion other = SharedRegion::Map(Copy(one.descriptor()), 10'000).value();
  EXPECT_NE(one.data(), other.data());
  EXPECT_EQ(other.data()[9'999], std::byte{0});
  one.data()[9'999] = std::byte{7};
  EXPECT_EQ(other.data()[9'999], std::byte{7});
  one = SharedRegion();
  EXPECT_EQ(other.data()[9'999], std::byte{7});
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
  EXPECT_EQ(SharedRegion::Map(Copy(region.descriptor()), 8'192).status().code(),
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
