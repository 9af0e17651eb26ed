#ifndef MUSTER_CLIENT_CHAOS_PROCESS_TREE_H_
#define MUSTER_CLIENT_CHAOS_PROCESS_TREE_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace muster {

struct RunningProcess {
  pid_t pid = 0;
  // Its words, the program's first.
  std::vector<std::string> command;
};

// Processes whose parent is `parent`, as of now, in order of pid. Those that have ended are left
// out. Source: /proc.
std::vector<RunningProcess> ChildrenOf(pid_t parent);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_PROCESS_TREE_H_
