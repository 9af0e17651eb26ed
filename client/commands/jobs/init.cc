#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/arguments/text_output.h"
#include "client/commands/commands.h"
#include "client/init/found_data.h"
#include "client/init/starter_job.h"
#include "client/terminal/help_formatter.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/files/output_file.h"
#include "common/job/predicts_examples.h"
#include "common/job_text/print_yaml.h"
#include "common/text/printable.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr size_t kTerminalWidth = 80;

struct InitArguments {
  std::string model;
  std::string data;
  LookOptions look;
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

// Says on standard error what was guessed and left out, since standard output may be the job.
void PrintNotes(const std::string& data, const StarterJob& job) {
  if (job.notes.empty()) return;
  PrintError("muster: %s is taken for a table.\n", PrintableLine(data));
  for (const std::string& note : job.notes) {
    const std::string lines = WrapLines(PrintableLine(note), kTerminalWidth - 4);
    PrintError("  - %s\n", absl::StrReplaceAll(lines, {{"\n", "\n    "}}));
  }
}

// What follows the training of a job that predicts examples' labels; else empty.
std::string NextCommand(const v1::JobSpec& spec) {
  if (!CheckPredictsExamples(spec, "the job").ok()) return "";
  return absl::StrCat("`muster predict ", PrintableLine(spec.name()),
                      " --data FILE --out predicted.csv` then predicts for other data");
}

absl::Status Init(Session& session, const InitArguments& arguments) {
  const std::string& out = arguments.out;
  if (!out.empty()) MUSTER_RETURN_IF_ERROR(CheckOut(out, arguments.replace));
  MUSTER_ASSIGN_OR_RETURN(const FoundData data, LookAtData(arguments.data, arguments.look));
  if (!arguments.look.label.empty() && data.kind != FoundData::Kind::kTable) {
    return absl::InvalidArgumentError(
        absl::StrCat("--predict names a column to predict, but ", arguments.data, " is no table"));
  }
  if (!out.empty()) MUSTER_RETURN_IF_ERROR(CheckOutputIsNoText(data.path, out));
  MUSTER_ASSIGN_OR_RETURN(const StarterJob job, MakeStarterJob(data, arguments.model));
  const std::string next = NextCommand(job.spec);
  const std::string yaml =
      absl::StrCat("# Made by `muster init` after a look at the data: a job to start from.\n",
                   next.empty() ? "" : "# `muster submit FILE` trains it;\n# ", next,
                   next.empty() ? "" : "\n", PrintYaml(job.spec, job.comments));
  PrintNotes(arguments.data, job);
  if (out.empty()) {
    if (session.output == Session::Output::kJson) {
      session.PrintJson(job.spec);
    } else {
      WriteText(stdout, yaml);
    }
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(WriteOutputFile(out, arguments.replace, yaml));
  session.PrintResult(absl::StrCat(out, ": a job to start from; `muster submit ", out,
                                   " --watch` trains it", next.empty() ? "" : "\n", next),
                      {{"job", out}});
  return absl::OkStatus();
}

}  // namespace

void AddInit(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand("init", "Write a short job file for your data");
  auto arguments = std::make_shared<InitArguments>();
  command
      ->add_option(
          "--data", arguments->data,
          "Data to train on: texts, JSON lines, chats, rows of Parquet or tokens (a file, a "
          "folder or a pattern; `muster data inspect` shows them), tables in CSV or "
          "Parquet (a file or a pattern), IDX images, libsvm or libffm data")
      ->required();
  command->add_option("--model", arguments->model,
                      "transformer, ngram, mlp, deep_fm, logistic_regression or "
                      "linear_regression. Default: the one that suits the data");
  command->add_option("--predict", arguments->look.label,
                      "Column of a table to predict. Default: a guess by names and places");
  command->add_option("--tokenizer", arguments->look.tokenizer,
                      "Tokenizer of texts, chats or tokens: a tokenizer.json or "
                      "tokenizer.model, or its folder, with the chat template. Default: bytes "
                      "(each byte of text is a token)");
  command->add_option(
      "--field", arguments->look.documents.field,
      "Field of JSON lines or column of Parquet with the text or the messages, as in data inspect");
  command->add_option("--raw", arguments->look.documents.raw,
                      "Type of tokens in files that have nothing else, as in data inspect");
  command->add_option("--out", arguments->out,
                      "File to write, such as job.yaml. Default: standard output");
  AddForceFlag(*command, arguments->replace);
  command->footer(
      "Example: muster init --data iris.csv --out iris.yaml\n"
      "If the data is a table, init guesses which column to predict and which columns\n"
      "are numbers or categories. It prints each guess and what it leaves out, and\n"
      "writes the same as comments into the file.");
  command->callback(
      [&session, arguments] { session.Run([&] { return Init(session, *arguments); }); });
}

}  // namespace muster
