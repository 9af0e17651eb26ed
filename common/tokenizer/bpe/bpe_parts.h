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

// What the file forms of a vocabulary, tokenizer.json and GPT-2's pair of files, have in common.
// `origin` names the file in errors, which are InvalidArgument, say of what kind a value is and
// quote nothing of it (common/text/length_of.h).

// The error that a field has a value of this kind; `expected` says what is understood. Names that
// files have in common, as "WordPiece", are a kind.
absl::Status RefuseField(const std::string& origin, absl::string_view field,
                         const nlohmann::json& value, absl::string_view expected);

// The member of an object; null where there is none, or no object.
const nlohmann::json& MemberOf(const nlohmann::json& object, const std::string& name);

// Whether the value of an option says that it is off: null, false or "".
bool IsOff(const nlohmann::json& value);

// The first id that is too large for a file with these entries: ids index a table.
int64_t TokenIdLimit(const nlohmann::json& vocab, const nlohmann::json& added);

// Reads a list of added tokens as tokenizer.json has it; null is an empty one. They come before the
// vocabulary.
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
