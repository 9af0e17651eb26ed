#include "client/chaos/process_tree.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::vector<RunningProcess> ChildrenOf(pid_t parent) {
  std::vector<RunningProcess> children;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end;
       it.increment(error)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(it->path().filename().string(), &pid)) continue;
    // The program's name, in parentheses, may hold anything; state and parent follow the last one.
    const std::string stat = Contents(it->path() / "stat");
    const size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream rest(stat.substr(name_end + 1));
    std::string state;
    pid_t its_parent = 0;
    if (!(rest >> state >> its_parent) || its_parent != parent || state == "Z") continue;
    const std::string command = Contents(it->path() / "cmdline");
    children.push_back({pid, absl::StrSplit(command, '\0', absl::SkipEmpty())});
  }
  std::sort(children.begin(), children.end(),
            [](const RunningProcess& a, const RunningProcess& b) { return a.pid < b.pid; });
  return children;
}

}  // namespace muster
