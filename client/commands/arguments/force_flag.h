#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_FORCE_FLAG_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_FORCE_FLAG_H_

#include <CLI/CLI.hpp>

#include "common/files/output_file.h"

namespace muster {

// Adds --force to a command that writes files. The flag sets `replace` to kFiles when the command
// line is parsed. `replace` must outlive the command.
void AddForceFlag(CLI::App& command, Replace& replace);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_FORCE_FLAG_H_
