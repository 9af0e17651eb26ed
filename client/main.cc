// `muster`: starts clusters on this machine, submits jobs and shows what becomes of them.

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/commands.h"
#include "client/exit_code.h"
#include "client/session.h"
#include "client/terminal.h"
#include "common/base/version.h"
#include "common/daemon/daemon.h"
#include "common/daemon/tls_flags.h"

namespace muster {
namespace {

void AddHelp(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand("help", "Show what a command does, with an example");
  auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("command", *names,
                      "The command, as in `help generate` or `help tokenizer train`; none lists "
                      "them all");
  command->callback([&app, &session, names] {
    if (names->empty()) {
      // app.help() would be that of the command which was named: this one's.
      Print("%s", app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
      return;
    }
    const CLI::App* shown = &app;
    // What comes before the name of the command shown.
    std::string path;
    for (const std::string& name : *names) {
      absl::StrAppend(&path, path.empty() ? "" : " ", shown->get_name());
      const auto found = shown->get_subcommands(
          [&name](const CLI::App* each) { return each->get_name() == name; });
      if (found.empty()) {
        // Without the program's own name.
        const std::string above = path.substr(app.get_name().size());
        PrintError("muster: no command is called%s %s; `muster help%s` lists them\n", above, name,
                   above);
        session.exit_code = kUsage;
        return;
      }
      shown = found[0];
    }
    Print("%s", shown->help(path));
  });
}

int Main(int argc, char** argv) {
  CLI::App app("Muster trains models, by parameter servers or by all-reduce.", "muster");
  Session session;
  app.require_subcommand(0, 1);
  app.fallthrough();
  app.add_option("--coordinator", session.coordinator_address,
                 "host:port of the coordinator; without it and --data-dir, what MUSTER_COORDINATOR "
                 "in the environment says");
  app.add_option("--data-dir", session.data_dir,
                 "Folder of a cluster on this machine; without it, that of the last `up`");
  AddTlsFlags(app, session.tls);
  const std::map<std::string, Session::Output> outputs = {{"text", Session::Output::kText},
                                                          {"json", Session::Output::kJson}};
  app.add_option("--output", session.output, "text (for people) or json (for programs)")
      ->transform(CLI::CheckedTransformer(outputs))
      ->option_text("text|json");
  app.set_version_flag("--version", VersionLine("muster"),
                       "Print release, commit and build, and exit");
  app.footer(
      "Exit codes: 0 success, 1 failure, 2 wrong command line, job file or id, 3 the job failed or "
      "was cancelled,\n"
      "4 no coordinator answers. `muster help COMMAND` shows an example of each command.");
  for (auto add :
       {AddUp,        AddDown,     AddDemo,       AddInit,     AddValidate,  AddPlan,
        AddSubmit,    AddList,     AddStatus,     AddWatch,    AddLogs,      AddEvents,
        AddCancel,    AddDelete,   AddCheckpoint, AddEvaluate, AddExport,    AddTokenizer,
        AddData,      AddGenerate, AddImport,     AddCompare,  AddCluster,   AddDrain,
        AddRebalance, AddMetrics,  AddBench,      AddChaos,    AddSupervise, AddVersion,
        AddHelp}) {
    add(app, session);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    if (app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-') {
      PrintError("muster: no command is called %s; `muster help` lists them\n", argv[1]);
    } else {
      app.exit(error);
    }
    return kUsage;
  }
  if (app.get_subcommands().empty()) {
    PrintError("%s", app.help());
    return kUsage;
  }
  return session.exit_code;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::IgnoreFileSizeSignal();
  return muster::Main(argc, argv);
}
