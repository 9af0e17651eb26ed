#ifndef MUSTER_CLIENT_CHAOS_FAULTS_PROCESS_STATE_FOR_TESTING_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_PROCESS_STATE_FOR_TESTING_H_

#include <sys/types.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace muster {

// Returns the letter of a process's state in /proc; 'T': it is stopped.
inline char StateOf(pid_t pid) {
  for (;;) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
    std::string id, name;
    char state = ' ';
    if (file >> id >> name >> state) return state;
  }
}

// Waits until the process is stopped, or is not.
inline void AwaitStopped(pid_t pid, bool stopped) {
  while ((StateOf(pid) == 'T') != stopped) absl::SleepFor(absl::Milliseconds(1));
}

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_PROCESS_STATE_FOR_TESTING_H_
