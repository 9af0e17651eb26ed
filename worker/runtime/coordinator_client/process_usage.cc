#include "worker/runtime/coordinator_client/process_usage.h"

#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <string>

namespace muster {
namespace {

// Returns the sum in bytes of these fields of /proc/self/status, which holds KiB.
uint64_t StatusBytes(std::initializer_list<const char*> fields) {
  std::ifstream status("/proc/self/status");
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

double Seconds(const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; }

}  // namespace

ProcessUsage ReadProcessUsage() {
  ProcessUsage usage;
  rusage self = {};
  if (getrusage(RUSAGE_SELF, &self) == 0) {
    usage.cpu_seconds = Seconds(self.ru_utime) + Seconds(self.ru_stime);
  }
  usage.peak_bytes = StatusBytes({"VmHWM:"});
  return usage;
}

uint64_t ReadAnonymousBytes() { return StatusBytes({"RssAnon:", "RssShmem:"}); }

}  // namespace muster
