#ifndef MUSTER_CLIENT_COMMAND_LINE_H_
#define MUSTER_CLIENT_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cluster/session.h"

namespace muster {

// Runs the command in `words`, which follow the program's name, with all commands of `muster`, and
// returns the exit code. Options of the session that no word sets stay as they are.
int RunCommandLine(const std::vector<std::string>& words, Session& session);

// Returns whether `muster` takes these words as a command line, and runs nothing. InvalidArgument:
// it has no such command or flag, or takes no such value. FailedPrecondition: something is missing.
absl::Status CheckCommandLine(const std::vector<std::string>& words);

// Returns all commands that the help of `muster` lists, as their words: {"checkpoint", "list"}.
std::vector<std::vector<std::string>> AllCommands();

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMAND_LINE_H_
