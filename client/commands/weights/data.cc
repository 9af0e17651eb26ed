#include <google/protobuf/text_format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/arguments/source_options.h"
#include "client/commands/arguments/text_output.h"
#include "client/commands/commands.h"
#include "client/commands/weights/data_inspection.h"
#include "client/init/name_documents.h"
#include "client/terminal/format.h"
#include "client/terminal/read_progress.h"
#include "client/terminal/terminal.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/documents/document_source.h"
#include "common/documents/tokenize_documents.h"
#include "common/files/output_file.h"
#include "common/files/text_files.h"
#include "common/text/format_bytes.h"
#include "common/text/printable.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/files/token_file.h"
#include "common/tokenizer/tokenizer.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

struct DataArguments {
  std::string data;
  std::string tokenizer;
  std::string out;
  SourceArguments source;
  Replace replace = Replace::kNever;
};

absl::Status Tokenize(const Session& session, const DataArguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const Tokenizer> tokenizer,
                          OpenTokenizer(arguments.tokenizer));
  MUSTER_RETURN_IF_ERROR(CheckOutputIsNoText(arguments.data, arguments.out));
  MUSTER_ASSIGN_OR_RETURN(const DocumentSource source,
                          FindDocuments(arguments.data, arguments.source.raw));
  if (source.form == DocumentSource::Form::kTokenFile) {
    return absl::InvalidArgumentError(
        absl::StrCat(arguments.data, " is a token file already; give the text with --data"));
  }
  MUSTER_ASSIGN_OR_RETURN(const SourceOptions options,
                          OpenSourceOptions(arguments.source, arguments.tokenizer));
  ReadProgress progress(session.output == Session::Output::kText, source.bytes);
  DocumentOptions read = options.documents;
  read.json.progress = read.tokens.progress = [&progress](uint64_t bytes) { progress.Add(bytes); };
  TokenizeOptions tokenize;
  tokenize.threads = UsableProcessors();
  MUSTER_ASSIGN_OR_RETURN(
      const TokenFileSummary summary,
      MakeTokenFile(source, read, *tokenizer, tokenize, arguments.out, arguments.replace));
  progress.End();
  const double bytes_per_token =
      static_cast<double>(summary.source_bytes) / static_cast<double>(summary.tokens);
  std::string text = absl::StrFormat(
      "%s: %s tokens of %s, %s bytes each, from %s %s", arguments.out, FormatCount(summary.tokens),
      FormatBytes(static_cast<double>(summary.source_bytes)), FormatNumber(bytes_per_token),
      FormatCount(summary.documents), summary.documents == 1 ? "document" : "documents");
  if (summary.trained_tokens < summary.tokens) {
    absl::StrAppend(&text, "; ", FormatCount(summary.trained_tokens), " of them are learned");
  }
  if (summary.kept_tokens > 0) {
    absl::StrAppend(&text, "; ", FormatCount(summary.kept_tokens),
                    " of them are from a run that was stopped");
  }
  const std::string left_out = TellHiddenFiles(arguments.data);
  if (!left_out.empty()) absl::StrAppend(&text, "\n", left_out);
  session.PrintResult(text, {{"file", arguments.out},
                             {"tokens", absl::StrCat(summary.tokens)},
                             {"trained_tokens", absl::StrCat(summary.trained_tokens)},
                             {"source_bytes", absl::StrCat(summary.source_bytes)},
                             {"vocabulary", absl::StrCat(tokenizer->vocabulary())},
                             {"documents", absl::StrCat(summary.documents)},
                             {"left_out", left_out}});
  return absl::OkStatus();
}

struct InspectArguments {
  std::string data;
  std::string tokenizer;
  SourceArguments source;
};

// Returns the name of the token file that the command names for data.
std::string TokenFileFor(const std::string& data) {
  std::string name = std::filesystem::path(data).lexically_normal().filename().string();
  name = name.substr(0, name.find_first_of(".*?[{"));
  return absl::StrCat(name.empty() ? "data" : name, ".tokens");
}

// Returns what to write into a job.
std::string JobBlock(const DocumentSource& source, const DataInspection& found,
                     const InspectArguments& arguments) {
  const bool all = found.text_bytes == found.learned_bytes && found.tokens == found.learned_tokens;
  v1::JobSpec job;
  *job.mutable_data()->mutable_sequences() =
      NameDocuments(source, arguments.tokenizer.empty() ? "TOKENIZER" : arguments.tokenizer,
                    arguments.source, all ? Trained::kYes : Trained::kNo);
  std::string text;
  google::protobuf::TextFormat::PrintToString(job, &text);
  return text;
}

// Returns the command that makes the token file which tasks would make; empty: it is one.
std::string TokenizeCommand(const DocumentSource& source, const InspectArguments& arguments) {
  if (source.form == DocumentSource::Form::kTokenFile) return "";
  std::string command =
      absl::StrCat("muster data tokenize --data '", arguments.data, "' --tokenizer ",
                   arguments.tokenizer.empty() ? "TOKENIZER" : arguments.tokenizer, " --out ",
                   TokenFileFor(arguments.data));
  const SourceArguments& options = arguments.source;
  if (!options.field.empty()) absl::StrAppend(&command, " --field ", options.field);
  if (!options.model.empty()) absl::StrAppend(&command, " --model ", options.model);
  if (!options.raw.empty()) absl::StrAppend(&command, " --raw ", options.raw);
  return command;
}

std::string InspectionText(const DataInspection& found, const DocumentSource& source) {
  std::string text = absl::StrFormat(
      "%s: %s, %s in %s %s", source.path, std::string(NameOf(source.form)),
      FormatBytes(static_cast<double>(source.bytes)), FormatCount(source.files.size()),
      source.files.size() == 1 ? "file" : "files");
  if (found.documents > 0) {
    absl::StrAppend(&text, "\n", FormatCount(found.documents),
                    found.documents == 1 ? " document" : " documents");
  }
  const auto share = [](uint64_t part, uint64_t whole) {
    return FormatPercent(static_cast<double>(part) / static_cast<double>(whole));
  };
  if (found.text_bytes > 0) {
    absl::StrAppend(&text, "\n", FormatBytes(static_cast<double>(found.text_bytes)), " of text, ",
                    share(found.learned_bytes, found.text_bytes), " of it learned");
  }
  if (found.tokens > 0) {
    absl::StrAppend(&text, "\n", FormatCount(found.tokens), " tokens, ",
                    share(found.learned_tokens, found.tokens), " of them learned");
  }
  for (size_t i = 0; i < found.padding.size(); ++i) {
    const auto& [context, padding] = found.padding[i];
    absl::StrAppend(&text, i == 0 ? "\nWith packing WHOLE_DOCUMENTS padding is " : ", ",
                    FormatPercent(padding), " of sequences of ", FormatCount(context),
                    i == 0 ? " tokens" : "");
  }
  return text;
}

absl::StatusOr<DataInspection> Look(const Session& session, const DocumentSource& source,
                                    const InspectArguments& arguments) {
  if (source.form == DocumentSource::Form::kTokenFile) {
    if (source.files.size() > 1) {
      return absl::InvalidArgumentError("several token files; name one of them");
    }
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const TokenFile> file,
                            TokenFile::Open(source.files[0]));
    return InspectTokenFile(source.files[0], *file);
  }
  std::unique_ptr<const Tokenizer> tokenizer;
  if (!arguments.tokenizer.empty()) {
    MUSTER_ASSIGN_OR_RETURN(tokenizer, OpenTokenizer(arguments.tokenizer));
  }
  MUSTER_ASSIGN_OR_RETURN(SourceOptions options,
                          OpenSourceOptions(arguments.source, arguments.tokenizer));
  // Chats are shown without a template, too.
  options.documents.json.why_no_template = absl::OkStatus();
  ReadProgress progress(session.output == Session::Output::kText, source.bytes);
  options.documents.json.progress =
      options.documents.tokens.progress = [&progress](uint64_t bytes) { progress.Add(bytes); };
  return InspectDocuments(source, options.documents, tokenizer.get());
}

absl::Status Inspect(const Session& session, const InspectArguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const DocumentSource source,
                          FindDocuments(arguments.data, arguments.source.raw));
  MUSTER_ASSIGN_OR_RETURN(const DataInspection found, Look(session, source, arguments));
  const std::string job = JobBlock(source, found, arguments);
  if (session.output == Session::Output::kJson) {
    session.PrintResult("", {{"form", std::string(NameOf(source.form))},
                             {"files", absl::StrCat(source.files.size())},
                             {"bytes", absl::StrCat(source.bytes)},
                             {"documents", absl::StrCat(found.documents)},
                             {"text_bytes", absl::StrCat(found.text_bytes)},
                             {"learned_bytes", absl::StrCat(found.learned_bytes)},
                             {"tokens", absl::StrCat(found.tokens)},
                             {"learned_tokens", absl::StrCat(found.learned_tokens)},
                             {"job", job}});
    return absl::OkStatus();
  }
  Print("%s\n", InspectionText(found, source));
  for (const ShownDocument& example : found.examples) {
    Print("\n--- %s\n", PrintableLine(example.place));
    PrintPieces(example.pieces);
    Print("\n");
  }
  if (!found.examples.empty()) Print("\n⟦What is learned⟧ is in brackets.\n");
  Print("\nTo train on it (`muster init` writes a whole job):\n\n%s", job);
  if (const std::string command = TokenizeCommand(source, arguments); !command.empty()) {
    Print(
        "\nEach machine then makes tokens of it once. To make them here, for jobs to name:\n\n%s\n",
        command);
  }
  return absl::OkStatus();
}

void AddInspect(CLI::App& command, Session& session) {
  auto arguments = std::make_shared<InspectArguments>();
  auto* inspect = command.add_subcommand(
      "inspect", "Show what data are, how much there is, and what of it a model learns");
  inspect->add_option("path", arguments->data, "A file, a folder, or a pattern, as for tokenize")
      ->required();
  inspect->add_option("--tokenizer", arguments->tokenizer,
                      "Tokenizer, as for tokenize, to count tokens and show where they end");
  AddSourceOptions(*inspect, arguments->source);
  inspect->footer("Example: muster data inspect chats.jsonl --tokenizer smollm3");
  inspect->callback(
      [&session, arguments] { session.Run([&] { return Inspect(session, *arguments); }); });
}

}  // namespace

void AddData(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<DataArguments>();
  auto* command = app.add_subcommand("data", "Look at data, and prepare them for training");
  command->require_subcommand(1);
  auto* tokenize = command->add_subcommand(
      "tokenize",
      "Make a token file of texts, chats, prompts with completions, or other programs' tokens");
  tokenize
      ->add_option(
          "--data", arguments->data,
          "Texts, JSON lines (plain, gzip or Zstandard), rows of Parquet, or tokens of llm.c, "
          "nanoGPT, Megatron or NumPy: a file, a folder, or a pattern")
      ->required();
  tokenize
      ->add_option("--tokenizer", arguments->tokenizer,
                   "bytes (each byte is a token), a tokenizer.json or tokenizer.model, or a folder "
                   "with one, or with vocab.json and merges.txt")
      ->required();
  tokenize->add_option("--out", arguments->out, "Token file to write")->required();
  AddSourceOptions(*tokenize, arguments->source);
  AddForceFlag(*tokenize, arguments->replace);
  AddInspect(*command, session);
  const std::string example =
      "Example: muster data tokenize --data corpus --tokenizer tokenizer.json --out corpus.tokens";
  command->footer(example);
  tokenize->footer(example);
  tokenize->callback(
      [&session, arguments] { session.Run([&] { return Tokenize(session, *arguments); }); });
}

}  // namespace muster
