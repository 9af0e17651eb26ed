#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/arguments/text_output.h"
#include "client/commands/commands.h"
#include "client/terminal/format.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/output_file.h"
#include "common/files/text_files.h"
#include "common/text/format_bytes.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/files/token_file.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {
namespace {

struct DataArguments {
  std::string data;
  std::string tokenizer;
  std::string out;
  Replace replace = Replace::kNever;
};

absl::Status Tokenize(const Session& session, const DataArguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const Tokenizer> tokenizer,
                          OpenTokenizer(arguments.tokenizer));
  if (IsTokenFileAt(arguments.data)) {
    return absl::InvalidArgumentError(
        absl::StrCat(arguments.data, " is a token file already; give the text with --data"));
  }
  MUSTER_RETURN_IF_ERROR(CheckOutputIsNoText(arguments.data, arguments.out));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<TokenFileWriter> writer,
                          TokenFileWriter::Create(arguments.out, *tokenizer, arguments.replace));
  int documents = 0;
  MUSTER_RETURN_IF_ERROR(ForEachTextFile(arguments.data, [&](const std::string&, FileContent file) {
    ++documents;
    return writer->AddDocument(file.bytes());
  }));
  MUSTER_ASSIGN_OR_RETURN(const TokenFileSummary summary, writer->Finish());
  const double bytes_per_token =
      static_cast<double>(summary.source_bytes) / static_cast<double>(summary.tokens);
  std::string text = absl::StrFormat(
      "%s: %s tokens of %s, %s bytes each, from %s %s", arguments.out, FormatCount(summary.tokens),
      FormatBytes(static_cast<double>(summary.source_bytes)), FormatNumber(bytes_per_token),
      FormatCount(documents), documents == 1 ? "document" : "documents");
  const std::string left_out = TellHiddenFiles(arguments.data);
  if (!left_out.empty()) absl::StrAppend(&text, "\n", left_out);
  session.PrintResult(text, {{"file", arguments.out},
                             {"tokens", absl::StrCat(summary.tokens)},
                             {"source_bytes", absl::StrCat(summary.source_bytes)},
                             {"vocabulary", absl::StrCat(tokenizer->vocabulary())},
                             {"documents", absl::StrCat(documents)},
                             {"left_out", left_out}});
  return absl::OkStatus();
}

}  // namespace

void AddData(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<DataArguments>();
  auto* command = app.add_subcommand("data", "Prepare data for training");
  command->require_subcommand(1);
  auto* tokenize = command->add_subcommand(
      "tokenize", "Encode text into a token file, so that jobs need not encode it at every start");
  tokenize->add_option("--data", arguments->data, "Text file, or folder of text files")->required();
  tokenize
      ->add_option("--tokenizer", arguments->tokenizer,
                   "bytes (each byte is a token), a tokenizer.json, or a folder with vocab.json "
                   "and merges.txt")
      ->required();
  tokenize->add_option("--out", arguments->out, "Token file to write")->required();
  AddForceFlag(*tokenize, arguments->replace);
  const std::string example =
      "Example: muster data tokenize --data corpus --tokenizer tokenizer.json --out corpus.tokens";
  command->footer(example);
  tokenize->footer(example);
  tokenize->callback(
      [&session, arguments] { session.Run([&] { return Tokenize(session, *arguments); }); });
}

}  // namespace muster
