#include "common/tokenizer/files/parse_tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"

namespace muster {

absl::StatusOr<std::unique_ptr<const Tokenizer>> ParseTokenizer(absl::string_view json,
                                                                const std::string& origin) {
  if (json.empty()) return std::make_unique<const ByteTokenizer>();
  MUSTER_ASSIGN_OR_RETURN(BpeVocabulary vocabulary, ParseBpeJson(json, origin));
  return CreateTokenizer(std::move(vocabulary), origin);
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> CreateTokenizer(BpeVocabulary vocabulary,
                                                                 const std::string& origin) {
  auto tokenizer = BpeTokenizer::Create(std::move(vocabulary));
  if (!tokenizer.ok()) {
    return absl::Status(tokenizer.status().code(),
                        absl::StrCat(origin, ": ", tokenizer.status().message()));
  }
  return std::unique_ptr<const Tokenizer>(*std::move(tokenizer));
}

}  // namespace muster
