#ifndef MUSTER_COMMON_TOKENIZER_WORDS_ADDED_TOKEN_JSON_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_ADDED_TOKEN_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/words/added_token_finder.h"

namespace muster {

// Added tokens and ids in tokenizers' files. Errors are those of json_fields.h.

// Returns the first id that is too large for a file with these entries. Ids index a table, so they
// are limited.
int64_t TokenIdLimit(const nlohmann::json& vocab, const nlohmann::json& added);

// Returns an id that is less than the limit; `field` names it in errors.
absl::StatusOr<int32_t> ParseTokenId(const nlohmann::json& value, const std::string& origin,
                                     absl::string_view field, int64_t limit);

// Reads a list of added tokens as in tokenizer.json; null means an empty list.
absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(const nlohmann::json& added,
                                                         const std::string& origin,
                                                         int64_t id_limit);

// Returns added tokens as a tokenizer.json has them.
nlohmann::json WriteAddedTokens(const std::vector<AddedToken>& added);

// Puts a token in its place; a second one for the same id must be the same.
absl::Status PlaceToken(int32_t id, std::string text, const std::string& origin,
                        std::vector<std::string>& tokens);

// Ids of tokens as the file writes them.
using WrittenIds = absl::flat_hash_map<std::string, int32_t>;

// Puts added tokens in their places. Call this before the vocabulary is read.
absl::Status PlaceAdded(const std::vector<AddedToken>& added, const std::string& origin,
                        std::vector<std::string>& tokens);

// Returns the added token with the most usual of EndOfTextNames(), or nothing if there is none.
std::optional<int32_t> FindEndOfText(const std::vector<AddedToken>& added);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_ADDED_TOKEN_JSON_H_
