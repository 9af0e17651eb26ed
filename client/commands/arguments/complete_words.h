#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_COMPLETE_WORDS_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_COMPLETE_WORDS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace muster {

// Returns the words that may replace the last word of an unfinished command line: commands, flags
// and values that the commands themselves declare, and names from the cluster. Empty: there are
// none, or the shell completes better, as with file names.
//
// `words` are the words after the program's name as shells give them. The last word, possibly
// empty, is unfinished; the others may have quotes, and be divided at `=`, `:` and `@`, as bash
// does. Options of `app` itself that the words contain are set. `names` returns what an argument of
// a type may be (client/commands/arguments/choices.h); names that mean something to a shell are
// left out.
std::vector<std::string> CompleteWords(
    CLI::App& app, const std::vector<std::string>& words,
    const std::function<std::vector<std::string>(const std::string& type)>& names);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_COMPLETE_WORDS_H_
