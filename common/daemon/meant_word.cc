#include "common/daemon/meant_word.h"

#include <CLI/CLI.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/text/nearest_word.h"

namespace muster {

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string MeantWord(const CLI::App& app) {
  // A command takes its own flags, and those of all above it.
  std::vector<std::string> flags;
  const CLI::App* innermost = &app;
  while (true) {
    for (const CLI::Option* option : innermost->get_options()) {
      for (const std::string& name : option->get_lnames())
        flags.push_back(absl::StrCat("--", name));
    }
    const std::vector<CLI::App*> parsed = innermost->get_subcommands();
    if (parsed.empty()) break;
    innermost = parsed[0];
  }
  for (const std::string& word : app.remaining(/*recurse=*/true)) {
    const std::string meant = absl::StartsWith(word, "-")
                                  ? NearestWord(word.substr(0, word.find('=')), flags)
                                  : NearestWord(word, CommandNames(*innermost));
    if (!meant.empty()) return meant;
  }
  return "";
}

}  // namespace muster
