#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/arguments/text_output.h"
#include "client/commands/commands.h"
#include "common/base/status_macros.h"
#include "common/chat_template/model_chat_template.h"
#include "common/documents/document_source.h"
#include "common/files/file_content.h"
#include "common/files/output_file.h"
#include "common/files/parse_json.h"
#include "common/files/text_files.h"
#include "common/text/format_bytes.h"
#include "common/text/printable.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/bpe_trainer.h"

namespace muster {
namespace {

struct TokenizerArguments {
  std::string data;
  std::string field;
  std::string out;
  int64_t vocabulary = 0;
  Replace replace = Replace::kNever;
};

absl::Status Train(const Session& session, const TokenizerArguments& arguments) {
  MUSTER_RETURN_IF_ERROR(CheckOutputIsNoText(arguments.data, arguments.out));
  MUSTER_RETURN_IF_ERROR(CheckOutputFile(arguments.out, arguments.replace));
  BpeTrainer trainer;
  uint64_t bytes = 0;
  MUSTER_ASSIGN_OR_RETURN(const DocumentSource source, FindDocuments(arguments.data));
  if (HasTokens(source.form)) {
    return absl::InvalidArgumentError(absl::StrCat(arguments.data, " is ", NameOf(source.form),
                                                   "; a tokenizer is learned from text"));
  }
  DocumentOptions options;
  options.json.field = arguments.field;
  MUSTER_RETURN_IF_ERROR(ForEachDocument(source, options, [&](const Document& document) {
    for (const TextPart& part : document.parts) {
      trainer.Add(part.text);
      bytes += part.text.size();
    }
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

struct ChatArguments {
  std::string data;
  std::string model;
  std::string template_name = "default";
  bool asks_for_answer = false;
};

// Prints the text that a model sees of each chat of a file, a chat on each line.
absl::Status Chat(const Session& session, const ChatArguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const ModelChatTemplate chat_template,
                          ModelChatTemplate::Open(arguments.model, arguments.template_name));
  MUSTER_ASSIGN_OR_RETURN(const FileContent file, OpenNonEmpty(arguments.data));
  const ChatEnd end = arguments.asks_for_answer ? ChatEnd::kAsksForAnswer : ChatEnd::kAsItIs;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(file.bytes(), '\n')) {
    ++number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const std::string place = absl::StrCat(arguments.data, ", line ", number);
    // The first parser bounds what the second takes, which keeps the order of fields.
    MUSTER_RETURN_IF_ERROR(ParseJson(line, place, "a chat as JSON on each line").status());
    const auto rendered = chat_template.Render(nlohmann::ordered_json::parse(line), end);
    if (!rendered.ok()) {
      return absl::Status(rendered.status().code(),
                          absl::StrCat(place, ": ", std::string(rendered.status().message())));
    }
    std::vector<std::string> generated;
    for (const ByteRange& range : rendered->generated) {
      generated.push_back(rendered->text.substr(range.begin, range.end - range.begin));
    }
    std::string text = absl::StrCat("--- ", place, "\n", rendered->text);
    if (chat_template.marks_generation()) {
      absl::StrAppend(&text, "\n--- of which a model learns ", generated.size(), " parts");
    }
    session.PrintResult(PrintableText(text), {{"line", absl::StrCat(number)},
                                              {"text", rendered->text},
                                              {"learned", absl::StrJoin(generated, "")}});
  }
  return absl::OkStatus();
}

void AddChat(CLI::App& command, Session& session) {
  auto arguments = std::make_shared<ChatArguments>();
  auto* chat = command.add_subcommand(
      "chat", "Show chats as a model sees them, by the template of its folder");
  chat->add_option("--data", arguments->data,
                   "File with a chat on each line: a JSON list of messages with role and content, "
                   "or an object with such \"messages\"")
      ->required();
  chat->add_option("--model", arguments->model,
                   "Folder with tokenizer_config.json, and chat_template.jinja if there is one")
      ->required();
  chat->add_option("--template", arguments->template_name,
                   "Name of the template, if the model has several")
      ->capture_default_str();
  chat->add_flag("--generation-prompt", arguments->asks_for_answer,
                 "End with what makes the model answer");
  chat->footer("Example: muster tokenizer chat --data chats.jsonl --model smollm3");
  chat->callback([&session, arguments] { session.Run([&] { return Chat(session, *arguments); }); });
}

}  // namespace

void AddTokenizer(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<TokenizerArguments>();
  auto* command =
      app.add_subcommand("tokenizer", "Train a tokenizer on your text, or look at chats");
  command->require_subcommand(1);
  auto* train = command->add_subcommand("train", "Learn a byte-level BPE vocabulary from text");
  train
      ->add_option("--data", arguments->data,
                   "Texts or JSON lines (plain, gzip or Zstandard), or rows of Parquet: a file, a "
                   "folder, or a pattern")
      ->required();
  train->add_option(
      "--field", arguments->field,
      "Field of JSON lines or column of Parquet with the text, as for `muster data tokenize`");
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
  AddChat(*command, session);
}

}  // namespace muster
