#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_COMPLETE_WORDS_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_COMPLETE_WORDS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace muster {

// Returns the words that may stand in place of the last one of an unfinished command line:
// commands, flags and values that the commands themselves declare, and names from the cluster.
// Empty: none, or a shell knows better, as with names of files.
//
// `words` are those after the program's name as shells tell them: the last one, possibly empty, is
// unfinished; others may have quotes, and be broken at `=`, `:` and `@`, as bash does. Options of
// `app` itself that the words set are set. `names` tells what an argument of a type may be
// (client/commands/arguments/choices.h); of these only words are taken that mean nothing to a
// shell.
std::vector<std::string> CompleteWords(
    CLI::App& app, const std::vector<std::string>& words,
    const std::function<std::vector<std::string>(const std::string& type)>& names);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_COMPLETE_WORDS_H_
