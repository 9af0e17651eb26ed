#include "worker/runtime/process_usage.h"

#include <sys/resource.h>
#include <sys/time.h>

#include <fstream>
#include <limits>
#include <string>

namespace muster {
namespace {

double Seconds(const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; }

}  // namespace

ProcessUsage ReadProcessUsage() {
  ProcessUsage usage;
  rusage self = {};
  if (getrusage(RUSAGE_SELF, &self) == 0) {
    usage.cpu_seconds = Seconds(self.ru_utime) + Seconds(self.ru_stime);
  }
  std::ifstream status("/proc/self/status");
  std::string field;
  while (status >> field) {
    if (field == "VmHWM:") {
      uint64_t kib = 0;
      if (status >> kib) usage.peak_bytes = kib * 1024;
      break;
    }
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return usage;
}

}  // namespace muster
