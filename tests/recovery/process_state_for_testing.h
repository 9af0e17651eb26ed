#ifndef MUSTER_TESTS_RECOVERY_PROCESS_STATE_FOR_TESTING_H_
#define MUSTER_TESTS_RECOVERY_PROCESS_STATE_FOR_TESTING_H_

#include <sys/types.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace muster {

// Returns the state of a process as /proc has it, such as T for a stopped one; X if it has ended,
// also if nobody has reaped it yet.
inline char StateOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string id, name;
  char state = 'X';
  file >> id >> name >> state;
  return state == 'Z' ? 'X' : state;
}

}  // namespace muster

#endif  // MUSTER_TESTS_RECOVERY_PROCESS_STATE_FOR_TESTING_H_
