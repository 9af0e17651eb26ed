#ifndef MUSTER_CLIENT_CHAOS_FAULTS_PROCESS_TREE_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_PROCESS_TREE_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace muster {

// Of every process that has children, as of now, these in order of pid. Those that have ended are
// left out. Source: /proc.
std::map<pid_t, std::vector<pid_t>> ProcessTree();

// The words of a process's command line, the program's first; none: it has ended.
std::vector<std::string> CommandOf(pid_t pid);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_PROCESS_TREE_H_
