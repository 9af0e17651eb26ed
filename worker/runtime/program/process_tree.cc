#include "worker/runtime/program/process_tree.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/files/bytes_of_file.h"
#include "worker/runtime/coordinator_client/process_usage.h"

namespace muster {
namespace {

constexpr absl::Duration kKillPause = absl::Milliseconds(2);
constexpr int kMostKillRounds = 2000;

// The fields of /proc/PID/stat that are used here.
struct Stat {
  pid_t parent = 0;
  char state = '?';
  uint64_t ticks = 0;
};

absl::optional<Stat> ReadStat(pid_t process) {
  const std::string text = BytesOfFile(absl::StrCat("/proc/", process, "/stat"));
  // The program's name, in parentheses, may hold anything.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return absl::nullopt;
  Stat stat;
  uint64_t user = 0, system = 0;
  const int read = std::sscanf(text.c_str() + name_end + 1,
                               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
                               &stat.state, &stat.parent, &user, &system);
  if (read != 4) return absl::nullopt;
  stat.ticks = user + system;
  return stat;
}

// Sums fields of /proc/PID/smaps_rollup, which holds KiB.
uint64_t ProportionalBytesOf(pid_t process) {
  std::ifstream rollup(absl::StrCat("/proc/", process, "/smaps_rollup"));
  uint64_t bytes = 0;
  std::string line;
  while (std::getline(rollup, line)) {
    uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "Pss_Anon: %" SCNu64, &kib) == 1 ||
        std::sscanf(line.c_str(), "Pss_Shmem: %" SCNu64, &kib) == 1) {
      bytes += kib * 1024;
    }
  }
  return bytes;
}

}  // namespace

void AdoptOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

std::vector<pid_t> FindDescendants() {
  std::map<pid_t, std::vector<pid_t>> children;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    pid_t process = 0;
    if (!absl::SimpleAtoi(entry->path().filename().string(), &process)) continue;
    const absl::optional<Stat> stat = ReadStat(process);
    if (stat.has_value() && stat->state != 'Z' && stat->state != 'X') {
      children[stat->parent].push_back(process);
    }
  }
  std::vector<pid_t> found;
  std::vector<pid_t> parents = {getpid()};
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    for (const pid_t child : children[parent]) {
      found.push_back(child);
      parents.push_back(child);
    }
  }
  return found;
}

TreeUsage UsageOf(const std::vector<pid_t>& processes) {
  const double ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  TreeUsage usage;
  for (const pid_t process : processes) {
    usage.bytes += ReadAnonymousBytesOf(process);
    const absl::optional<Stat> stat = ReadStat(process);
    if (stat.has_value()) usage.cpu_seconds += static_cast<double>(stat->ticks) / ticks_per_second;
  }
  return usage;
}

uint64_t ProportionalBytes(const std::vector<pid_t>& processes) {
  uint64_t bytes = 0;
  for (const pid_t process : processes) bytes += ProportionalBytesOf(process);
  return bytes;
}

std::string DescribeState(pid_t process) {
  const absl::optional<Stat> stat = ReadStat(process);
  if (!stat.has_value()) return "has ended";
  switch (stat->state) {
    case 'R':
      return "computes";
    case 'T':
    case 't':
      return "is stopped (by SIGSTOP or a debugger)";
    case 'Z':
    case 'X':
      return "has ended";
    default:
      break;
  }
  const std::string where = BytesOfFile(absl::StrCat("/proc/", process, "/wchan"));
  const std::string waits = stat->state == 'D' ? "waits for a device" : "sleeps";
  return where.empty() || where == "0" ? waits : absl::StrCat(waits, " in ", where);
}

void KillDescendants() {
  for (int round = 0; round < kMostKillRounds; ++round) {
    const std::vector<pid_t> descendants = FindDescendants();
    if (descendants.empty()) return;
    for (const pid_t process : descendants) kill(process, SIGKILL);
    absl::SleepFor(kKillPause);
  }
}

}  // namespace muster
