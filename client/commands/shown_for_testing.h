#ifndef MUSTER_CLIENT_COMMANDS_SHOWN_FOR_TESTING_H_
#define MUSTER_CLIENT_COMMANDS_SHOWN_FOR_TESTING_H_

#include <string>

namespace muster {

// What a command line has shown, and its exit code.
struct Shown {
  int exit_code = 0;
  std::string out;
  std::string error;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_SHOWN_FOR_TESTING_H_
