#include "client/commands/arguments/parse_error.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/commands/arguments/choices.h"
#include "common/text/nearest_name.h"

namespace muster {
namespace {

// The command that the line got to.
const CLI::App& CommandOf(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  return *command;
}

// "`muster help status`", of `muster status`.
std::string HelpOn(const CLI::App& command) {
  const std::string path = PathOf(command);
  const size_t program = path.find(' ');
  return absl::StrCat("`muster help", program == std::string::npos ? "" : path.substr(program),
                      "`");
}

std::string NoSuchFlag(const CLI::App& command, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  std::vector<std::string> flags;
  // A command takes those of the commands above it as well.
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames()) flags.push_back(name);
    }
  }
  std::optional<std::string> near = NearestName(flag.substr(flag.find_first_not_of('-')), flags);
  if (near.has_value()) near = "--" + *near;
  return absl::StrCat(PathOf(command), " has no flag ", flag, "; ", DidYouMeanQuestion(near),
                      HelpOn(command), " lists its flags");
}

}  // namespace

std::string PathOf(const CLI::App& command) {
  const CLI::App* above = command.get_parent();
  return above == nullptr ? command.get_name()
                          : absl::StrCat(PathOf(*above), " ", command.get_name());
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::string NoSuchCommand(const CLI::App& above, const std::string& word) {
  return absl::StrCat(PathOf(above), " has no command ", word, "; ",
                      DidYouMeanQuestion(NearestName(word, CommandNames(above))), HelpOn(above),
                      " lists them");
}

std::string DescribeParseError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = CommandOf(app);
  const std::vector<std::string> commands = CommandNames(command);
  // Words that nothing takes. A flag goes first: others may be its value.
  const std::vector<std::string> left = app.remaining(/*recurse=*/true);
  for (const std::string& word : left) {
    if (word.size() > 1 && word[0] == '-' && word != "--" &&
        word.find_first_not_of('-') != std::string::npos) {
      return NoSuchFlag(command, word);
    }
  }
  if (!commands.empty()) {
    if (!left.empty()) return NoSuchCommand(command, left[0]);
    return absl::StrCat(PathOf(command), " needs a command: ", JoinWithOr(commands), "; ",
                        HelpOn(command), " explains them");
  }
  if (!left.empty()) {
    return absl::StrCat(PathOf(command), " takes no further argument, but there is \"", left[0],
                        "\"; ", HelpOn(command), " shows its arguments");
  }
  std::string what = error.what();
  // "--tail: 1 required UINT missing".
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr &&
      absl::EndsWith(what, " missing")) {
    what = absl::StrCat(what.substr(0, what.find(':')), " needs a value");
  }
  return absl::StrCat(what, "; ", HelpOn(command), " shows an example");
}

}  // namespace muster
