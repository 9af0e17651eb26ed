#include "common/daemon/daemon.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/machine/usable_resources.h"
#include "common/rpc/channel.h"
#include "common/text/printable.h"

namespace muster {
namespace {

// More would slow down programs that go through all descriptors they might have.
constexpr rlim_t kMostDescriptors = 1 << 20;

}  // namespace

void DaemonLog(absl::string_view program, absl::string_view line) {
  absl::FPrintF(stderr, "%s %s: %s\n",
                absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()), program,
                PrintableLine(line));
}

uint64_t RandomBits() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

uint64_t DefaultMemoryBytes() { return FindUsableResources().memory_bytes / 4 * 3; }

bool IsOnAllAddresses(const std::string& listening) {
  return absl::StartsWith(listening, "0.0.0.0:") || absl::StartsWith(listening, "[::]:");
}

std::string AdvertisedAddress(absl::string_view advertise, const std::string& listening) {
  const std::string port = listening.substr(listening.rfind(':'));
  if (!advertise.empty()) return WithPort(advertise, std::atoi(port.c_str() + 1));
  char name[256] = "localhost";
  if (!IsOnAllAddresses(listening) || gethostname(name, sizeof(name) - 1) != 0) return listening;
  return absl::StrCat(name, port);
}

void EndWithParent() {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // The parent may have ended before; orphans go to process 1 or to their session's reaper.
  if (getppid() == 1) raise(SIGTERM);
}

void IgnoreFileSizeSignal() { signal(SIGXFSZ, SIG_IGN); }

void IgnoreFileSignals() {
  signal(SIGPIPE, SIG_IGN);
  IgnoreFileSizeSignal();
}

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMostDescriptors));
  setrlimit(RLIMIT_NOFILE, &limit);
}

void ExitWithin(absl::Duration time, int code) {
  std::thread([time, code] {
    absl::SleepFor(time);
    _exit(code);
  }).detach();
}

}  // namespace muster
