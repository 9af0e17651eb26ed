#include "client/compare/process_usage.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/files/bytes_of_file.h"

namespace muster {
namespace {

// The fields of /proc/PID/stat after the program's name, which may hold anything; the first is the
// state, field 3 of proc(5).
bool ReadStat(pid_t pid, std::vector<std::string>& fields) {
  const std::string text = BytesOfFile("/proc/" + std::to_string(pid) + "/stat");
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return false;
  std::istringstream rest(text.substr(end + 1));
  fields.clear();
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields.size() > 12;
}

std::string ProgramOf(pid_t pid) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
  return error ? "" : path.filename().string();
}

uint64_t PeakBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("VmHWM:", 0) != 0) continue;
    return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

}  // namespace

std::vector<ChildUsage> UsageOfChildren(pid_t parent, const std::string& program) {
  std::vector<ChildUsage> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), last; !error && entry != last;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t pid = 0;
    const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad != std::errc() || end != name.data() + name.size()) continue;
    std::vector<std::string> stat;
    if (!ReadStat(pid, stat) || std::stol(stat[1]) != parent || ProgramOf(pid) != program) continue;
    // utime and stime: fields 14 and 15.
    const double ticks = std::stod(stat[11]) + std::stod(stat[12]);
    found.push_back({.pid = pid,
                     .cpu_seconds = ticks / static_cast<double>(sysconf(_SC_CLK_TCK)),
                     .peak_bytes = PeakBytes(pid)});
  }
  std::sort(found.begin(), found.end(),
            [](const ChildUsage& a, const ChildUsage& b) { return a.pid < b.pid; });
  return found;
}

int AvailableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

bool LimitProcessors(int count) {
  cpu_set_t may, keep;
  CPU_ZERO(&may);
  CPU_ZERO(&keep);
  if (count < 1) return false;
  if (sched_getaffinity(0, sizeof(may), &may) != 0 || CPU_COUNT(&may) < count) return false;
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&keep) < count; ++cpu) {
    if (CPU_ISSET(cpu, &may)) CPU_SET(cpu, &keep);
  }
  return sched_setaffinity(0, sizeof(keep), &keep) == 0;
}

}  // namespace muster
