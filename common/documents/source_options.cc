#include "common/documents/source_options.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {

std::string ChatTemplateFolder(const SourceArguments& arguments, const std::string& tokenizer) {
  if (!arguments.model.empty()) return arguments.model;
  std::error_code error;
  if (std::filesystem::is_directory(tokenizer, error)) return tokenizer;
  const std::string folder = std::filesystem::path(tokenizer).parent_path().string();
  return folder.empty() ? "." : folder;
}

absl::StatusOr<SourceOptions> OpenSourceOptions(const SourceArguments& arguments,
                                                const std::string& tokenizer) {
  SourceOptions options;
  options.documents.json.field = arguments.field;
  const bool named = !arguments.model.empty();
  absl::StatusOr<ModelChatTemplate> opened =
      ModelChatTemplate::Open(ChatTemplateFolder(arguments, tokenizer), arguments.template_name);
  if (opened.ok()) {
    options.chat_template = std::make_unique<const ModelChatTemplate>(*std::move(opened));
    options.documents.json.chat_template = options.chat_template.get();
  } else if (named) {
    return opened.status();
  } else {
    options.documents.json.why_no_template = absl::Status(
        opened.status().code(),
        absl::StrCat("chats become text by a model's chat template; name its folder: in a job as ",
                     "documents.model, to `muster data` by --model, to `muster init` by ",
                     "--tokenizer (", std::string(opened.status().message()), ")"));
  }
  return options;
}

absl::StatusOr<Trained> ReadFirstDocument(const DocumentSource& source,
                                          const SourceArguments& arguments,
                                          const std::string& tokenizer_name,
                                          const Tokenizer& tokenizer) {
  MUSTER_ASSIGN_OR_RETURN(SourceOptions options, OpenSourceOptions(arguments, tokenizer_name));
  options.documents.tokens.vocabulary = tokenizer.vocabulary();
  options.documents.tokens.end_of_text = tokenizer.end_of_text();
  bool all = true;
  const auto take = [&all](const Document& document) {
    for (const TextPart& part : document.parts) all = all && part.trained == Trained::kYes;
    return absl::CancelledError("enough");
  };
  const absl::Status first = ForEachDocument(source, options.documents, take);
  if (!first.ok() && !absl::IsCancelled(first)) return first;
  return all ? Trained::kYes : Trained::kNo;
}

}  // namespace muster
