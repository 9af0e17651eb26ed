#ifndef MUSTER_WORKER_GENERATE_CHAT_H_
#define MUSTER_WORKER_GENERATE_CHAT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/model_chat_template.h"
#include "common/tokenizer/tokenizer.h"
#include "worker/generate/generator.h"

namespace muster {

// A conversation with a language model that was trained on chats. Not thread-safe.
class Chat {
 public:
  // `folder` has the chat template. `options` say how each answer is drawn; the answers' seeds are
  // seed, seed + 1, and so on. All must outlive this. `system` is the message before all others;
  // empty: none. Errors are ModelChatTemplate::Open's and EndsOfTurns'.
  static absl::StatusOr<Chat> Open(const std::string& folder, NextTokenModel& model,
                                   const Tokenizer& tokenizer, GenerateOptions options,
                                   const std::string& system);

  // Says something to the model and hands `sink` its answer as it comes. Returns the number of its
  // tokens. After an error the message is not part of the conversation. Errors are those of the
  // template and Generate's.
  absl::StatusOr<int64_t> Say(const std::string& message,
                              absl::FunctionRef<absl::Status(absl::string_view)> sink);

 private:
  Chat(ModelChatTemplate chat_template, NextTokenModel& model, const Tokenizer& tokenizer,
       GenerateOptions options);

  ModelChatTemplate chat_template_;
  NextTokenModel& model_;
  const Tokenizer& tokenizer_;
  GenerateOptions options_;
  // Messages with their role and content, in order.
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

}  // namespace muster

#endif  // MUSTER_WORKER_GENERATE_CHAT_H_
