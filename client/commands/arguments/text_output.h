#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_TEXT_OUTPUT_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_TEXT_OUTPUT_H_

#include <string>

#include "absl/status/status.h"

namespace muster {

// Of a command that reads text at `data`, a file or a folder, and writes a file `out`.
// InvalidArgument: that would replace the text, or lie among the texts of the folder and be read as
// one of them, or is no name that a file can have (OutputTarget).
absl::Status CheckOutputIsNoText(const std::string& data, const std::string& out);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_TEXT_OUTPUT_H_
