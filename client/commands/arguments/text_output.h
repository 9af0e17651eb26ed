#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_TEXT_OUTPUT_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_TEXT_OUTPUT_H_

#include <string>

#include "absl/status/status.h"

namespace muster {

// Checks the output file `out` of a command that reads text at `data`, a file or folder.
// InvalidArgument: the output would replace the text; or it lies in the folder and would be read as
// one of its texts; or no file can have this name (OutputTarget).
absl::Status CheckOutputIsNoText(const std::string& data, const std::string& out);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_TEXT_OUTPUT_H_
