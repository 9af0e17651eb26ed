#include "client/chaos/faults/cluster_processes.h"

#include <map>

#include "absl/strings/match.h"
#include "client/chaos/faults/process_tree.h"

namespace muster {

std::vector<ClusterProcess> ClusterProcesses(pid_t supervisor) {
  constexpr char kId[] = "--id=";
  const std::map<pid_t, std::vector<pid_t>> tree = ProcessTree();
  const auto children_of = [&tree](pid_t parent) {
    const auto found = tree.find(parent);
    return found == tree.end() ? std::vector<pid_t>() : found->second;
  };
  std::vector<ClusterProcess> processes;
  for (const pid_t daemon : children_of(supervisor)) {
    std::string name = "coordinator";
    for (const std::string& word : CommandOf(daemon)) {
      if (absl::StartsWith(word, kId)) name = word.substr(sizeof(kId) - 1);
    }
    for (const pid_t task : children_of(daemon)) {
      processes.push_back({.daemon = name, .is_task = true, .pid = task});
    }
    processes.push_back({.daemon = name, .pid = daemon});
  }
  return processes;
}

}  // namespace muster
