#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_SOURCE_OPTIONS_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_SOURCE_OPTIONS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/chat_template/model_chat_template.h"
#include "common/documents/document_source.h"

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

// A command is told by these how to read documents (common/documents).
struct SourceArguments {
  std::string field;
  std::string model;
  std::string template_name = "default";
  std::string raw;
};

// Adds --field, --model, --template and --raw to a command.
void AddSourceOptions(CLI::App& command, SourceArguments& arguments);

// Says how to read documents, and has the chat template that this refers to.
struct SourceOptions {
  std::unique_ptr<const ModelChatTemplate> chat_template;
  DocumentOptions documents;
};

// Opens the chat template of --model or, without that, the one beside the tokenizer of this name,
// if there is one. Errors are ModelChatTemplate::Open's; those about the second come only if there
// are chats.
absl::StatusOr<SourceOptions> OpenSourceOptions(const SourceArguments& arguments,
                                                const std::string& tokenizer);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_SOURCE_OPTIONS_H_
