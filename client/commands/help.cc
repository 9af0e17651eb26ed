#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/parse_error.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"

namespace muster {

void AddHelp(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand("help", "Show a command's flags and an example");
  auto names = std::make_shared<std::vector<std::string>>();
  command
      ->add_option(
          "command", *names,
          "Command to explain, such as generate or tokenizer train. Default: list all commands")
      ->type_name(kCommandType);
  command->footer("Example: muster help checkpoint restore");
  command->callback([&app, &session, names] {
    if (names->empty()) {
      // app.help() would be that of the command which was named: this one's.
      Print("%s", app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
      return;
    }
    const CLI::App* shown = &app;
    // Words before the name of the command shown.
    std::string path;
    for (const std::string& name : *names) {
      absl::StrAppend(&path, path.empty() ? "" : " ", shown->get_name());
      const auto found = shown->get_subcommands(
          [&name](const CLI::App* each) { return each->get_name() == name; });
      if (found.empty()) {
        return session.Fail(absl::InvalidArgumentError(NoSuchCommand(*shown, name)));
      }
      shown = found[0];
    }
    Print("%s", shown->help(path));
  });
}

}  // namespace muster
