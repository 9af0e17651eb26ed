#include "worker/runtime/coordinator_client/process_usage.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/machine/resident_peak.h"
#include "common/transport/shared_memory/shared_region.h"

namespace muster {
namespace {

// Returns the sum in bytes of these fields of a process's file `status`, which holds KiB.
uint64_t StatusBytes(const std::string& path, std::initializer_list<const char*> fields) {
  std::ifstream status(path);
  uint64_t bytes = 0;
  size_t found = 0;
  std::string field;
  while (found < fields.size() && status >> field) {
    uint64_t kib = 0;
    if (std::find(fields.begin(), fields.end(), field) != fields.end() && status >> kib) {
      bytes += kib * 1024;
      ++found;
    }
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return bytes;
}

// Returns the resident bytes of others' regions among this process's mappings.
uint64_t MappedBytes() {
  const std::string region = absl::StrCat("/memfd:", SharedRegion::kName);
  const std::string own = absl::StrCat(region, getpid(), " ");
  std::ifstream mappings("/proc/self/smaps");
  uint64_t bytes = 0;
  bool is_others = false;
  std::string line;
  // A mapping's first line ends with its name; lines with its figures follow.
  while (std::getline(mappings, line)) {
    uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "Rss: %" SCNu64, &kib) == 1) {
      bytes += is_others ? kib * 1024 : 0;
    } else if (line.find(':') > line.find('-')) {
      is_others = absl::StrContains(line, region) && !absl::StrContains(line, own);
    }
  }
  return bytes;
}

double Seconds(const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; }

}  // namespace

ProcessUsage ReadProcessUsage() {
  ProcessUsage usage;
  rusage self = {};
  if (getrusage(RUSAGE_SELF, &self) == 0) {
    usage.cpu_seconds = Seconds(self.ru_utime) + Seconds(self.ru_stime);
  }
  const ResidentPeaks peaks = ReadResidentPeaks();
  usage.peak_bytes = peaks.all;
  usage.mapped_bytes = MappedBytes() + (peaks.all - peaks.without_files);
  return usage;
}

uint64_t ReadAnonymousBytes() { return ReadAnonymousBytesOf(getpid()); }

uint64_t ReadAnonymousBytesOf(pid_t process) {
  return StatusBytes(absl::StrCat("/proc/", process, "/status"), {"RssAnon:", "RssShmem:"});
}

}  // namespace muster
