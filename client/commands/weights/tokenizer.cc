#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/arguments/text_output.h"
#include "client/commands/commands.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/output_file.h"
#include "common/files/text_files.h"
#include "common/text/format_bytes.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/bpe_trainer.h"

namespace muster {
namespace {

struct TokenizerArguments {
  std::string data;
  std::string out;
  int64_t vocabulary = 0;
  Replace replace = Replace::kNever;
};

absl::Status Train(const Session& session, const TokenizerArguments& arguments) {
  MUSTER_RETURN_IF_ERROR(CheckOutputIsNoText(arguments.data, arguments.out));
  MUSTER_RETURN_IF_ERROR(CheckOutputFile(arguments.out, arguments.replace));
  BpeTrainer trainer;
  uint64_t bytes = 0;
  MUSTER_RETURN_IF_ERROR(ForEachTextFile(arguments.data, [&](const std::string&, FileContent file) {
    trainer.Add(file.bytes());
    bytes += file.bytes().size();
    return absl::OkStatus();
  }));
  MUSTER_ASSIGN_OR_RETURN(const BpeVocabulary vocabulary, trainer.Train(arguments.vocabulary));
  MUSTER_RETURN_IF_ERROR(
      WriteOutputFile(arguments.out, arguments.replace, WriteBpeJson(vocabulary)));
  const auto tokens = static_cast<int64_t>(vocabulary.tokens.size());
  std::string text = absl::StrCat(arguments.out, ": ", tokens, " tokens, learned from ",
                                  FormatBytes(static_cast<double>(bytes)));
  if (tokens < arguments.vocabulary) {
    absl::StrAppend(&text, "; no pair occurs twice any more, so there are no more");
  }
  const std::string left_out = TellHiddenFiles(arguments.data);
  if (!left_out.empty()) absl::StrAppend(&text, "\n", left_out);
  session.PrintResult(text, {{"file", arguments.out},
                             {"tokens", absl::StrCat(tokens)},
                             {"bytes", absl::StrCat(bytes)},
                             {"left_out", left_out}});
  return absl::OkStatus();
}

}  // namespace

void AddTokenizer(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<TokenizerArguments>();
  auto* command = app.add_subcommand("tokenizer", "Train a tokenizer on your text");
  command->require_subcommand(1);
  auto* train = command->add_subcommand("train", "Learn a byte-level BPE vocabulary from text");
  train->add_option("--data", arguments->data, "Text file, or folder of text files")->required();
  train
      ->add_option("--vocabulary", arguments->vocabulary,
                   "Number of tokens: 256 bytes, the learned tokens and the end of text")
      ->required()
      ->check(CLI::Range(BpeTrainer::kLeastVocabulary, BpeTrainer::kMostVocabulary));
  train->add_option("--out", arguments->out, "tokenizer.json to write")->required();
  AddForceFlag(*train, arguments->replace);
  const std::string example =
      "Example: muster tokenizer train --data corpus --vocabulary 8192 --out tokenizer.json";
  command->footer(example);
  train->footer(example);
  train->callback(
      [&session, arguments] { session.Run([&] { return Train(session, *arguments); }); });
}

}  // namespace muster
