#ifndef MUSTER_COMMON_DAEMON_PARSE_FLAGS_H_
#define MUSTER_COMMON_DAEMON_PARSE_FLAGS_H_

#include <optional>

namespace CLI {
class App;
}

namespace muster {

// Reads a program's command line, as given to main, into the flags of `app`, to which it adds
// --version. Returns nothing if the program is to go on, otherwise its exit code: 0 after printing
// its help or version, 2 after saying on standard error what is wrong, as `muster` does.
std::optional<int> ParseFlags(CLI::App& app, int argc, const char* const* argv);

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_PARSE_FLAGS_H_
