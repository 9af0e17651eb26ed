#ifndef MUSTER_COMMON_TOKENIZER_FILES_PARSE_TOKENIZER_H_
#define MUSTER_COMMON_TOKENIZER_FILES_PARSE_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

struct BpeVocabulary;
struct UnigramVocabulary;

// Makes a tokenizer from a tokenizer.json, or what Tokenizer::json() returned; `origin` names the
// text in errors. InvalidArgument: the text is damaged or of an unsupported kind.
absl::StatusOr<std::unique_ptr<const Tokenizer>> ParseTokenizer(absl::string_view json,
                                                                const std::string& origin);

// Creates a vocabulary's tokenizer and puts the origin in front of errors.
absl::StatusOr<std::unique_ptr<const Tokenizer>> CreateTokenizer(BpeVocabulary vocabulary,
                                                                 const std::string& origin);
absl::StatusOr<std::unique_ptr<const Tokenizer>> CreateTokenizer(UnigramVocabulary vocabulary,
                                                                 const std::string& origin);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_FILES_PARSE_TOKENIZER_H_
