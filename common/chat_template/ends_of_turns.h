#ifndef MUSTER_COMMON_CHAT_TEMPLATE_ENDS_OF_TURNS_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_ENDS_OF_TURNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/chat_template/model_chat_template.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// Returns the tokens at which a model has said what it had to: those of eos_token_id in the
// generation_config.json of its folder, if there is one, and the token of its eos_token, if
// `chat_template` has one. In order, each once. InvalidArgument: the file is damaged, or its ids
// are none of the tokenizer's; names the file.
absl::StatusOr<std::vector<int32_t>> EndsOfTurns(const std::string& folder,
                                                 const ModelChatTemplate& chat_template,
                                                 const Tokenizer& tokenizer);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_ENDS_OF_TURNS_H_
