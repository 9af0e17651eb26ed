#ifndef MUSTER_COMMON_DAEMON_MEANT_WORD_H_
#define MUSTER_COMMON_DAEMON_MEANT_WORD_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

// The commands that may come after a command, or after the program's name.
std::vector<std::string> CommandNames(const CLI::App& app);

// The flag or command that was probably meant by the first word which the parser of a command line
// did not expect; empty: there is no such word, or none is near. `app` is what has parsed.
std::string MeantWord(const CLI::App& app);

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_MEANT_WORD_H_
