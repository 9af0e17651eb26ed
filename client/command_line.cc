#include "client/command_line.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cluster/exit_code.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/parse_error.h"
#include "client/commands/commands.h"
#include "client/terminal/help_formatter.h"
#include "client/terminal/terminal.h"
#include "common/base/version.h"
#include "common/daemon/tls_flags.h"

namespace muster {
namespace {

void AddOptionsAndCommands(CLI::App& app, Session& session) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(0, 1);
  app.fallthrough();
  app.add_option("--coordinator", session.coordinator_address,
                 "HOST:PORT of the coordinator. Default: the cluster of --data-dir, or without "
                 "that flag the environment variable MUSTER_COORDINATOR");
  app.add_option("--data-dir", session.data_dir,
                 "Folder of a cluster on this machine. Default: that of the last `muster up`");
  AddTlsFlags(app, session.tls);
  app.add_option_function<std::string>(
         "--output",
         [&session](const std::string& output) {
           session.output = output == "json" ? Session::Output::kJson : Session::Output::kText;
         },
         "text (for people) or json (for programs)")
      ->transform(OneOf({"text", "json"}))
      ->option_text("text|json");
  app.set_version_flag("--version", VersionLine("muster"),
                       "Print release, commit and build, and exit");
  app.footer(
      "Exit codes: 0 success, 1 failure, 2 wrong command line, job file or job, 3 the job failed "
      "or was cancelled, 4 no coordinator answers, 130 interrupted.\n"
      "With --output json a failure ends standard error with one line: {\"error\": {\"code\": ..., "
      "\"message\": ..., \"exit_code\": ...}}.\n"
      "`muster help COMMAND` shows the flags of a command and an example; `muster completion bash` "
      "lets the shell complete commands, flags and jobs.");
  for (auto add :
       {AddUp,      AddDown,    AddDemo,      AddInit,   AddValidate, AddPlan,       AddSubmit,
        AddList,    AddStatus,  AddWatch,     AddLogs,   AddEvents,   AddHistory,    AddTensorboard,
        AddReport,  AddTrace,   AddCancel,    AddDelete, AddDescribe, AddCheckpoint, AddEvaluate,
        AddPredict, AddExport,  AddTokenizer, AddData,   AddGenerate, AddImport,     AddCompare,
        AddProve,   AddCluster, AddDoctor,    AddTop,    AddDrain,    AddRebalance,  AddMetrics,
        AddBench,   AddChaos,   AddSupervise, AddHelp,   AddVersion,  AddCompletion}) {
    add(app, session);
  }
}

// Returns true if the words ask for JSON, even if they cannot be parsed.
bool AsksForJson(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] == "--output=json") return true;
    if (words[i] == "--output" && i + 1 < words.size() && words[i + 1] == "json") return true;
  }
  return false;
}

void AppendCommands(const CLI::App& app, const std::vector<std::string>& above,
                    std::vector<std::vector<std::string>>& commands) {
  for (const std::string& name : CommandNames(app)) {
    std::vector<std::string> words = above;
    words.push_back(name);
    const CLI::App& command = *app.get_subcommand(name);
    if (CommandNames(command).empty()) {
      commands.push_back(words);
    } else {
      AppendCommands(command, words, commands);
    }
  }
}

}  // namespace

int RunCommandLine(const std::vector<std::string>& words, Session& session) {
  CLI::App app("Muster trains models, by parameter servers or by all-reduce.", "muster");
  AddOptionsAndCommands(app, session);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    if (AsksForJson(words)) session.output = Session::Output::kJson;
    session.Fail(absl::InvalidArgumentError(DescribeParseError(app, error)));
    return session.exit_code;
  }
  if (app.get_subcommands().empty()) {
    if (session.output == Session::Output::kJson) {
      session.Fail(absl::InvalidArgumentError("name a command; `muster help` lists them"));
    } else {
      PrintError("%s", app.help());
    }
    return kUsage;
  }
  return session.exit_code;
}

absl::Status CheckCommandLine(const std::vector<std::string>& words) {
  CLI::App app("", "muster");
  Session session;
  AddOptionsAndCommands(app, session);
  // All words are taken then, and no command has begun.
  app.parse_complete_callback([] { throw CLI::Success(); });
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::RequiredError& error) {
    return absl::FailedPreconditionError(DescribeParseError(app, error));
  } catch (const CLI::Success&) {
    return absl::OkStatus();
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(DescribeParseError(app, error));
  }
  return absl::OkStatus();
}

std::vector<std::vector<std::string>> AllCommands() {
  CLI::App app("", "muster");
  Session session;
  AddOptionsAndCommands(app, session);
  std::vector<std::vector<std::string>> commands;
  AppendCommands(app, {}, commands);
  return commands;
}

}  // namespace muster
