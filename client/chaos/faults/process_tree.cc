#include "client/chaos/faults/process_tree.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files/bytes_of_file.h"

namespace muster {

std::map<pid_t, std::vector<pid_t>> ProcessTree() {
  std::map<pid_t, std::vector<pid_t>> tree;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end;
       it.increment(error)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(it->path().filename().string(), &pid)) continue;
    // The program's name, in parentheses, may hold anything; state and parent follow the last one.
    const std::string stat = BytesOfFile(it->path() / "stat");
    const size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream rest(stat.substr(name_end + 1));
    std::string state;
    pid_t parent = 0;
    if (rest >> state >> parent && state != "Z") tree[parent].push_back(pid);
  }
  for (auto& [parent, children] : tree) std::sort(children.begin(), children.end());
  return tree;
}

std::vector<std::string> CommandOf(pid_t pid) {
  return absl::StrSplit(BytesOfFile(absl::StrCat("/proc/", pid, "/cmdline")), '\0',
                        absl::SkipEmpty());
}

}  // namespace muster
