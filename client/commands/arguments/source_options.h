#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_SOURCE_OPTIONS_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_SOURCE_OPTIONS_H_

#include "common/documents/source_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

// Adds --field, --model, --template and --raw to a command.
void AddSourceOptions(CLI::App& command, SourceArguments& arguments);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_SOURCE_OPTIONS_H_
