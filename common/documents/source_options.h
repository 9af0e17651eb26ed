#ifndef MUSTER_COMMON_DOCUMENTS_SOURCE_OPTIONS_H_
#define MUSTER_COMMON_DOCUMENTS_SOURCE_OPTIONS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/chat_template/model_chat_template.h"
#include "common/documents/document_source.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// A command or a job (v1::DocumentSpec) says by these how to read documents.
struct SourceArguments {
  std::string field;
  // Folder with the chat template; empty: the tokenizer's.
  std::string model;
  std::string template_name = "default";
  std::string raw;
};

// Says how to read documents, and has the chat template that this refers to.
struct SourceOptions {
  std::unique_ptr<const ModelChatTemplate> chat_template;
  DocumentOptions documents;
};

// Returns the folder with the chat template: `arguments.model` or, without that, the one of the
// tokenizer of this name.
std::string ChatTemplateFolder(const SourceArguments& arguments, const std::string& tokenizer);

// Opens the chat template of `arguments.model` or, without that, the one beside the tokenizer of
// this name, if there is one. Errors are ModelChatTemplate::Open's; those about the second come
// only if there are chats.
absl::StatusOr<SourceOptions> OpenSourceOptions(const SourceArguments& arguments,
                                                const std::string& tokenizer);

// Reads the first document of a source as a job's tasks will, and returns whether all of it is to
// be learned. Errors: OpenSourceOptions', ForEachDocument's. REQUIRES: the form is not kTokenFile;
// `tokenizer_name` names the tokenizer.
absl::StatusOr<Trained> ReadFirstDocument(const DocumentSource& source,
                                          const SourceArguments& arguments,
                                          const std::string& tokenizer_name,
                                          const Tokenizer& tokenizer);

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_SOURCE_OPTIONS_H_
