#ifndef MUSTER_CLIENT_COMMAND_LINE_H_
#define MUSTER_CLIENT_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "client/cluster/session.h"

namespace muster {

// Runs what the words after the program's name say, with all commands of `muster`, and returns what
// to exit with. Options of the session that no word sets stay as they are.
int RunCommandLine(const std::vector<std::string>& words, Session& session);

// All commands of `muster` that its help lists, as their words: {"checkpoint", "list"}.
std::vector<std::vector<std::string>> AllCommands();

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMAND_LINE_H_
