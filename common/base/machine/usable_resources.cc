#include "common/base/machine/usable_resources.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// The path of this process's group below the mount point of cgroup v2: "" for its root, otherwise
// such as "/system.slice/muster.service". A container sees its own group as the root.
std::string OwnGroup(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (absl::StartsWith(line, "0::/") && line != "0::/") return line.substr(3);
  }
  return "";
}

// Takes the limits of the group in `folder`. Numbers are "max" where there is no limit, which is
// not read as one.
void Restrict(const std::string& folder, UsableResources& resources) {
  std::ifstream processors(folder + "/cpu.max");
  double quota = 0, period = 0;  // microseconds of processor time, and in how many
  if (processors >> quota >> period && quota > 0 && period > 0) {
    const int whole = static_cast<int>(std::ceil(std::min(quota / period, 1e6)));
    resources.processors = std::min(resources.processors, whole);
  }
  std::ifstream memory(folder + "/memory.max");
  uint64_t bytes = 0;
  if (memory >> bytes) resources.memory_bytes = std::min(resources.memory_bytes, bytes);
}

}  // namespace

UsableResources FindUsableResources(const std::string& root) {
  UsableResources resources;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    resources.processors = std::max(1, CPU_COUNT(&set));
  } else {
    // More of them than the set has room for.
    resources.processors = std::max<int>(1, sysconf(_SC_NPROCESSORS_ONLN));
  }
  resources.memory_bytes = uint64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const std::string mount = root + "/sys/fs/cgroup";
  std::string group = OwnGroup(root);
  while (true) {
    Restrict(mount + group, resources);
    if (group.empty()) return resources;
    group.resize(group.rfind('/'));
  }
}

int UsableProcessors() { return FindUsableResources().processors; }

}  // namespace muster
