#ifndef MUSTER_CLIENT_COMMAND_LINE_H_
#define MUSTER_CLIENT_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "client/cluster/session.h"

namespace muster {

// Runs the command in `words`, which follow the program's name, with all commands of `muster`, and
// returns the exit code. Options of the session that no word sets stay as they are.
int RunCommandLine(const std::vector<std::string>& words, Session& session);

// Returns all commands that the help of `muster` lists, as their words: {"checkpoint", "list"}.
std::vector<std::vector<std::string>> AllCommands();

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMAND_LINE_H_
