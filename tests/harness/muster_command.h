#ifndef MUSTER_TESTS_HARNESS_MUSTER_COMMAND_H_
#define MUSTER_TESTS_HARNESS_MUSTER_COMMAND_H_

#include <string>

namespace muster {

struct CommandResult {
  int exit_code = -1;
  // Standard output and error together.
  std::string output;
};

// Runs `muster` as a user would type it, with a home folder of the test's own. `environment`:
// further assignments, which come later and so win.
CommandResult Muster(const std::string& arguments, const std::string& environment = "");

}  // namespace muster

#endif  // MUSTER_TESTS_HARNESS_MUSTER_COMMAND_H_
