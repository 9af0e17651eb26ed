#ifndef MUSTER_COMMON_TOKENIZER_FILES_PARSE_TOKENIZER_H_
#define MUSTER_COMMON_TOKENIZER_FILES_PARSE_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// Makes a tokenizer from what Tokenizer::json() returned; `origin` names the text in errors.
// InvalidArgument: the text is damaged or of an unsupported kind.
absl::StatusOr<std::unique_ptr<const Tokenizer>> ParseTokenizer(absl::string_view json,
                                                                const std::string& origin);

// Calls BpeTokenizer::Create and puts the origin in front of its errors.
absl::StatusOr<std::unique_ptr<const Tokenizer>> CreateTokenizer(BpeVocabulary vocabulary,
                                                                 const std::string& origin);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_FILES_PARSE_TOKENIZER_H_
