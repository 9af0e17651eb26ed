#ifndef MUSTER_COMMON_TOKENIZER_WORDS_TEXT_RULES_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_TEXT_RULES_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tokenizer/words/rewriter.h"
#include "common/tokenizer/words/word_splitter.h"

namespace muster {

// The rules that stand around the vocabulary in a tokenizer.json, each a JSON value, or empty for
// null. No pre_tokenizer, not even null: byte-level with GPT-2's words, and nothing else.
struct TextRules {
  std::string normalizer;
  std::string pre_tokenizer;
  std::string post_processor;
  std::string decoder;
};

// The rules of a tokenizer, read. Immutable, so thread-safe.
struct ReadTextRules {
  // Changes the text between added tokens.
  Rewriter normalizer;
  // Changes what begins there, once added tokens of the normalized text were found.
  Rewriter beginnings;
  // `beginnings` changes a text's beginning alone, not what follows an added token.
  bool only_first = false;
  WordSplitter splitter;
  // Tokens are bytes, which files write as characters (bpe/byte_level.h).
  bool byte_level = false;
  // In the bytes of a token, this stands for a space; empty: nothing does.
  std::string space;
  // Tokens such as <0x0A> are a byte each.
  bool byte_tokens = false;
  // Put before each document.
  std::vector<int32_t> before_document;
  // Texts that are equal for rules that encode alike; empty for GPT-2's.
  std::string identity;
};

// Returns the rules that stand in a tokenizer.json; none if they are GPT-2's.
TextRules TextRulesOf(const nlohmann::json& tokenizer);

// Writes rules, which TextRulesOf returned, into a tokenizer.json.
void WriteTextRules(const TextRules& rules, nlohmann::json& tokenizer);

// Reads rules. InvalidArgument: a rule is damaged or of an unsupported kind; the message names the
// field, the kind of its value and what is supported. `origin` names the file.
absl::StatusOr<ReadTextRules> ParseTextRules(const TextRules& rules, const std::string& origin);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_TEXT_RULES_H_
