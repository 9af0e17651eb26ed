#include "common/base/machine/usable_resources.h"

#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class UsableResourcesTest : public testing::Test {
 protected:
  UsableResourcesTest() {
    std::filesystem::remove_all(root_);
    Write("/proc/self/cgroup", "0::/\n");
    all_ = FindUsableResources(root_);
  }

  // Of a file below the root.
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  const std::string root_ = testing::TempDir() + "/root";
  // What there is without limits.
  UsableResources all_;
};

TEST_F(UsableResourcesTest, WithoutLimitsAreTheMachines) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(all_.processors, CPU_COUNT(&set));
  EXPECT_EQ(all_.memory_bytes, uint64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
}

TEST_F(UsableResourcesTest, SayingThatThereIsNoLimitIsNone) {
  Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(FindUsableResources(root_).processors, all_.processors);
  EXPECT_EQ(FindUsableResources(root_).memory_bytes, all_.memory_bytes);
}

TEST_F(UsableResourcesTest, AContainersLimitsCount) {
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  Write("/sys/fs/cgroup/memory.max", "67108864\n");
  EXPECT_EQ(FindUsableResources(root_).processors, 1);
  EXPECT_EQ(FindUsableResources(root_).memory_bytes, 64 * kMiB);
}

TEST_F(UsableResourcesTest, LimitsAboveTheMachineGiveNoMore) {
  Write("/sys/fs/cgroup/cpu.max", "99000000 1000\n");
  Write("/sys/fs/cgroup/memory.max", "9000000000000000\n");
  EXPECT_EQ(FindUsableResources(root_).processors, all_.processors);
  EXPECT_EQ(FindUsableResources(root_).memory_bytes, all_.memory_bytes);
}

TEST_F(UsableResourcesTest, TheTightestOfAllGroupsAroundCounts) {
  Write("/proc/self/cgroup", "1:name=systemd:/elsewhere\n0::/pods.slice/pod7/container\n");
  Write("/sys/fs/cgroup/pods.slice/memory.max", "536870912\n");
  Write("/sys/fs/cgroup/pods.slice/pod7/memory.max", "134217728\n");
  Write("/sys/fs/cgroup/pods.slice/pod7/container/memory.max", "268435456\n");
  Write("/sys/fs/cgroup/pods.slice/pod8/memory.max", "1048576\n");
  Write("/sys/fs/cgroup/pods.slice/cpu.max", "100000 100000\n");
  EXPECT_EQ(FindUsableResources(root_).memory_bytes, 128 * kMiB);
  EXPECT_EQ(FindUsableResources(root_).processors, 1);
}

TEST_F(UsableResourcesTest, AGroupThatIsNotMountedHereLeavesTheRootsLimits) {
  Write("/proc/self/cgroup", "0::/docker/0123\n");
  Write("/sys/fs/cgroup/memory.max", "67108864\n");
  EXPECT_EQ(FindUsableResources(root_).memory_bytes, 64 * kMiB);
}

}  // namespace
}  // namespace muster
