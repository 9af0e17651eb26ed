#ifndef MUSTER_COMMON_TOKENIZER_BPE_BPE_PARTS_H_
#define MUSTER_COMMON_TOKENIZER_BPE_BPE_PARTS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"

namespace muster {

// Shared by the readers of a vocabulary's file forms, tokenizer.json and GPT-2's pair of files.
// `origin` names the file in errors, which are InvalidArgument. They say of what kind a value is
// and quote nothing of it (common/text/length_of.h).

// Returns the error that a field has a value of this kind; `expected` says what is supported. A
// name that many files use, such as "WordPiece", counts as a kind.
absl::Status RefuseField(const std::string& origin, absl::string_view field,
                         const nlohmann::json& value, absl::string_view expected);

// Returns the member of an object; null if there is no such member, or no object.
const nlohmann::json& MemberOf(const nlohmann::json& object, const std::string& name);

// Returns true if an option's value means off: null, false or "".
bool IsOff(const nlohmann::json& value);

// Returns the first id that is too large for a file with these entries. Ids index a table, so they
// are limited.
int64_t TokenIdLimit(const nlohmann::json& vocab, const nlohmann::json& added);

// Reads a list of added tokens as in tokenizer.json; null means an empty list. Call this before the
// vocabulary is read.
absl::Status ParseAddedTokens(const nlohmann::json& added, const std::string& origin,
                              int64_t id_limit, BpeVocabulary& vocabulary);

// Ids of tokens as the file writes them.
using WrittenIds = absl::flat_hash_map<std::string, int32_t>;

// Reads an object of tokens, in GPT-2's characters for bytes, and their ids.
absl::StatusOr<WrittenIds> ParseWrittenTokens(const nlohmann::json& vocab,
                                              const std::string& origin, int64_t id_limit,
                                              BpeVocabulary& vocabulary);

// Appends a merge; `place` names it in errors.
absl::Status AddMerge(const WrittenIds& ids, absl::string_view left, absl::string_view right,
                      const std::string& place, BpeVocabulary& vocabulary);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_BPE_PARTS_H_
