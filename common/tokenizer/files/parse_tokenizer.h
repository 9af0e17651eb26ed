#ifndef MUSTER_COMMON_TOKENIZER_FILES_PARSE_TOKENIZER_H_
#define MUSTER_COMMON_TOKENIZER_FILES_PARSE_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// The tokenizer that Tokenizer::json() gave; `origin` names it in errors. InvalidArgument: the text
// is damaged or of a kind that is not understood.
absl::StatusOr<std::unique_ptr<const Tokenizer>> ParseTokenizer(absl::string_view json,
                                                                const std::string& origin);

// BpeTokenizer::Create with the origin in front of its errors.
absl::StatusOr<std::unique_ptr<const Tokenizer>> CreateTokenizer(BpeVocabulary vocabulary,
                                                                 const std::string& origin);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_FILES_PARSE_TOKENIZER_H_
