#ifndef MUSTER_COMMON_TOKENIZER_BPE_BPE_PARTS_H_
#define MUSTER_COMMON_TOKENIZER_BPE_BPE_PARTS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/words/added_token_json.h"

namespace muster {

// Shared by the readers of a vocabulary's file forms, tokenizer.json and GPT-2's pair of files.
// Errors are those of common/tokenizer/words/json_fields.h.

// Reads an object of tokens, in GPT-2's characters for bytes if the vocabulary is byte-level, and
// their ids.
absl::StatusOr<WrittenIds> ParseWrittenTokens(const nlohmann::json& vocab,
                                              const std::string& origin, int64_t id_limit,
                                              BpeVocabulary& vocabulary);

// Appends a merge; `place` names it in errors.
absl::Status AddMerge(const WrittenIds& ids, absl::string_view left, absl::string_view right,
                      const std::string& place, BpeVocabulary& vocabulary);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_BPE_PARTS_H_
