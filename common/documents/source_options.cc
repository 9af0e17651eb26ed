#include "common/documents/source_options.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// Returns the folder of a tokenizer that a name means.
std::string FolderOf(const std::string& tokenizer) {
  std::error_code error;
  if (std::filesystem::is_directory(tokenizer, error)) return tokenizer;
  const std::string folder = std::filesystem::path(tokenizer).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

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
        absl::StrCat("chats become text by a model's chat template; name its folder with --model, ",
                     "or in a job as documents.model (", std::string(opened.status().message()),
                     ")"));
  }
  return options;
}

}  // namespace muster
