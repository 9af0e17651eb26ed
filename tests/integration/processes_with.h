#ifndef MUSTER_TESTS_INTEGRATION_PROCESSES_WITH_H_
#define MUSTER_TESTS_INTEGRATION_PROCESSES_WITH_H_

#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "common/files/bytes_of_file.h"

namespace muster {

// Returns how many processes run with this text in their command line.
inline int ProcessesWith(const std::string& text) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    count += absl::StrContains(BytesOfFile(entry.path() / "cmdline"), text);
  }
  return count;
}

}  // namespace muster

#endif  // MUSTER_TESTS_INTEGRATION_PROCESSES_WITH_H_
