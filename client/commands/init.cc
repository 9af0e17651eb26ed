#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/arguments/text_output.h"
#include "client/commands/commands.h"
#include "client/init/found_data.h"
#include "client/init/starter_job.h"
#include "client/job_text/print_yaml.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/files/output_file.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

struct InitArguments {
  std::string model;
  std::string data;
  std::string out;
  Replace replace = Replace::kNever;
};

absl::Status CheckOut(const std::string& out, Replace replace) {
  if (!absl::EndsWithIgnoreCase(out, ".yaml") && !absl::EndsWithIgnoreCase(out, ".yml")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--out is ", out, "; init writes YAML, so the name has to end in .yaml or .yml"));
  }
  return CheckOutputFile(out, replace);
}

absl::Status Init(Session& session, const InitArguments& arguments) {
  const std::string& out = arguments.out;
  if (!out.empty()) MUSTER_RETURN_IF_ERROR(CheckOut(out, arguments.replace));
  MUSTER_ASSIGN_OR_RETURN(const FoundData data, LookAtData(arguments.data));
  if (!out.empty()) MUSTER_RETURN_IF_ERROR(CheckOutputIsNoText(data.path, out));
  MUSTER_ASSIGN_OR_RETURN(const StarterJob job, MakeStarterJob(data, arguments.model));
  const std::string yaml =
      absl::StrCat("# Made by `muster init` after a look at the data: a job to start from.\n",
                   PrintYaml(job.spec, job.comments));
  if (out.empty()) {
    if (session.output == Session::Output::kJson) {
      session.PrintJson(job.spec);
    } else {
      WriteText(stdout, yaml);
    }
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(WriteOutputFile(out, arguments.replace, yaml));
  session.PrintResult(
      absl::StrCat(out, ": a job to start from; `muster submit ", out, " --watch` trains it"),
      {{"job", out}});
  return absl::OkStatus();
}

}  // namespace

void AddInit(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand("init", "Write a short job file for your data");
  auto arguments = std::make_shared<InitArguments>();
  command
      ->add_option("--data", arguments->data,
                   "Data to train on: a text file or a folder of them, a token file, CSV (a file "
                   "or a pattern of files), IDX images or libsvm data")
      ->required();
  command->add_option("--model", arguments->model,
                      "transformer, ngram, mlp, deep_fm or logistic_regression. Default: the one "
                      "that suits the data");
  command->add_option("--out", arguments->out,
                      "File to write, such as job.yaml. Default: standard output");
  AddForceFlag(*command, arguments->replace);
  command->footer(
      "Example: muster init --data iris.csv --out iris.yaml\n"
      "If the data is a table, init guesses which column to predict and which columns\n"
      "are numbers or categories. Comments in the file state each guess.");
  command->callback(
      [&session, arguments] { session.Run([&] { return Init(session, *arguments); }); });
}

}  // namespace muster
