#include "worker/generate/chat.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/chat_template/ends_of_turns.h"

namespace muster {
namespace {

nlohmann::ordered_json Message(absl::string_view role, const std::string& content) {
  return {{"role", std::string(role)}, {"content", content}};
}

}  // namespace

Chat::Chat(ModelChatTemplate chat_template, NextTokenModel& model, const Tokenizer& tokenizer,
           GenerateOptions options)
    : chat_template_(std::move(chat_template)),
      model_(model),
      tokenizer_(tokenizer),
      options_(std::move(options)) {}

absl::StatusOr<Chat> Chat::Open(const std::string& folder, NextTokenModel& model,
                                const Tokenizer& tokenizer, GenerateOptions options,
                                const std::string& system) {
  MUSTER_ASSIGN_OR_RETURN(ModelChatTemplate chat_template, ModelChatTemplate::Open(folder));
  MUSTER_ASSIGN_OR_RETURN(options.ends, EndsOfTurns(folder, chat_template, tokenizer));
  // A template writes what stands before a document itself.
  options.start = TextStart::kText;
  Chat chat(std::move(chat_template), model, tokenizer, std::move(options));
  if (!system.empty()) chat.messages_.push_back(Message("system", system));
  return chat;
}

absl::StatusOr<int64_t> Chat::Say(const std::string& message,
                                  absl::FunctionRef<absl::Status(absl::string_view)> sink) {
  nlohmann::ordered_json messages = messages_;
  messages.push_back(Message("user", message));
  MUSTER_ASSIGN_OR_RETURN(const RenderedChat prompt,
                          chat_template_.Render(messages, ChatEnd::kAsksForAnswer));
  std::string answer;
  MUSTER_ASSIGN_OR_RETURN(const int64_t made, Generate(model_, tokenizer_, prompt.text, options_,
                                                       [&](absl::string_view bytes) {
                                                         answer.append(bytes.data(), bytes.size());
                                                         return sink(bytes);
                                                       }));
  messages.push_back(Message("assistant", answer));
  messages_ = std::move(messages);
  ++options_.seed;
  return made;
}

}  // namespace muster
