#ifndef MUSTER_COMMON_CHAT_TEMPLATE_MODEL_CHAT_TEMPLATE_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_MODEL_CHAT_TEMPLATE_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "common/chat_template/chat_template.h"

namespace muster {

// Says whether a chat ends with what makes a model answer it.
enum class ChatEnd { kAsItIs, kAsksForAnswer };

// The chat template of a model's folder, with the special tokens that it may name. Thread-safe.
class ModelChatTemplate {
 public:
  // Opens `folder`'s template: chat_template.jinja or, of that name or alone, what
  // tokenizer_config.json has as chat_template. NotFound: there is none, or none of that name; the
  // error tells which there are. Otherwise errors are those of the files and of Parse; all name the
  // file.
  static absl::StatusOr<ModelChatTemplate> Open(const std::string& folder,
                                                const std::string& name = "default");

  // Renders a chat: a list of messages, or an object with `messages` and what else the template
  // asks for, such as `tools`. InvalidArgument: it is neither, or as ChatTemplate::Render.
  absl::StatusOr<RenderedChat> Render(nlohmann::ordered_json chat, ChatEnd end) const;

  // Renders a chat as it is, with the parts that a model is to learn as `generated`: what
  // {% generation %} blocks print. Where the template has none, they are the assistant's turns with
  // their ends: what a chat has more than the messages before the turn with the generation prompt.
  // InvalidArgument also: this cannot be told, since the chat does not begin as those do; the
  // message names the turn.
  absl::StatusOr<RenderedChat> RenderToLearn(nlohmann::ordered_json chat) const;

  // Returns the template as it stands in its file, and the texts of the special tokens that it may
  // name, by name, such as eos_token.
  const std::string& text() const { return text_; }
  const nlohmann::ordered_json& tokens() const { return tokens_; }

  // Returns a value that is equal for templates that render alike.
  uint64_t fingerprint() const { return fingerprint_; }

  // Returns whether the template says which text a model is to learn.
  bool marks_generation() const { return chat_template_.marks_generation(); }

 private:
  ModelChatTemplate(ChatTemplate chat_template, std::string text, nlohmann::ordered_json tokens,
                    uint64_t fingerprint)
      : chat_template_(std::move(chat_template)),
        text_(std::move(text)),
        tokens_(std::move(tokens)),
        fingerprint_(fingerprint) {}

  ChatTemplate chat_template_;
  std::string text_;
  nlohmann::ordered_json tokens_;
  uint64_t fingerprint_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_MODEL_CHAT_TEMPLATE_H_
