#include "client/commands/arguments/source_options.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Returns the folder of a tokenizer that a name means.
std::string FolderOf(const std::string& tokenizer) {
  std::error_code error;
  if (fs::is_directory(tokenizer, error)) return tokenizer;
  const std::string folder = fs::path(tokenizer).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

void AddSourceOptions(CLI::App& command, SourceArguments& arguments) {
  command.add_option("--field", arguments.field,
                     "Field of JSON lines with the text or the messages, if it is not known by its "
                     "name: text, prompt and completion, messages, conversations");
  command.add_option("--model", arguments.model,
                     "Folder with the chat template, if chats are read and the tokenizer's folder "
                     "has none");
  command
      .add_option("--template", arguments.template_name,
                  "Name of the chat template, if there are several")
      ->capture_default_str();
  command.add_option("--raw", arguments.raw,
                     "Type of tokens in files that have nothing else, such as u16 for nanoGPT's");
}

absl::StatusOr<SourceOptions> OpenSourceOptions(const SourceArguments& arguments,
                                                const std::string& tokenizer) {
  SourceOptions options;
  options.documents.json.field = arguments.field;
  const bool named = !arguments.model.empty();
  absl::StatusOr<ModelChatTemplate> opened = ModelChatTemplate::Open(
      named ? arguments.model : FolderOf(tokenizer), arguments.template_name);
  if (opened.ok()) {
    options.chat_template = std::make_unique<const ModelChatTemplate>(*std::move(opened));
    options.documents.json.chat_template = options.chat_template.get();
  } else if (named) {
    return opened.status();
  } else {
    options.documents.json.why_no_template = absl::Status(
        opened.status().code(),
        absl::StrCat("chats become text by a model's chat template; name its folder with --model (",
                     std::string(opened.status().message()), ")"));
  }
  return options;
}

}  // namespace muster
