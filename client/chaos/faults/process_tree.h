#ifndef MUSTER_CLIENT_CHAOS_FAULTS_PROCESS_TREE_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_PROCESS_TREE_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace muster {

// Returns the children of each process that has any now, in order of pid. Processes that have ended
// are left out. Reads /proc.
std::map<pid_t, std::vector<pid_t>> ProcessTree();

// Returns the words of a process's command line, the program's first; empty if the process has
// ended.
std::vector<std::string> CommandOf(pid_t pid);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_PROCESS_TREE_H_
