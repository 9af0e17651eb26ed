#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_PARSE_ERROR_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_PARSE_ERROR_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace muster {

// Returns a text for the user on what is wrong with a command line: the wrong word, the nearest
// command or flag if there is one, and where to read on. REQUIRES: app.parse threw `error`.
std::string DescribeParseError(const CLI::App& app, const CLI::ParseError& error);

// Returns the commands below `app` that its help lists.
std::vector<std::string> CommandNames(const CLI::App& app);

// Returns "no command is called lsit; did you mean list? `muster help` lists them". `above` is
// "muster", or "muster checkpoint".
std::string NoSuchCommand(const CLI::App& above, const std::string& word);

// Returns the words of the command: "muster checkpoint list".
std::string PathOf(const CLI::App& command);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_PARSE_ERROR_H_
