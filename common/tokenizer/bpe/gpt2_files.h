#ifndef MUSTER_COMMON_TOKENIZER_BPE_GPT2_FILES_H_
#define MUSTER_COMMON_TOKENIZER_BPE_GPT2_FILES_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"

namespace muster {

// Texts of the files in a folder that holds GPT-2's tokenizer in its older form. A text is empty or
// absent if the folder lacks the file.
struct Gpt2Files {
  // vocab.json: an object of tokens and their ids.
  absl::string_view vocab;
  // merges.txt: a pair per line, after an optional first line that begins with "#version".
  absl::string_view merges;
  // added_tokens.json: an object of further tokens and their ids.
  std::optional<absl::string_view> added_tokens;
  // Both name the special tokens, the end of text among them; the latter also names the class of
  // tokenizer.
  std::optional<absl::string_view> special_tokens_map;
  std::optional<absl::string_view> tokenizer_config;
  // Both may give the id of the end of text.
  std::optional<absl::string_view> generation_config;
  std::optional<absl::string_view> config;
};

// Reads these files. Tokens that they name as special or as further ones become added tokens. The
// end of text is the one that they name, or else the first of EndOfTextNames() in the vocabulary,
// which then becomes an added token, too. InvalidArgument: a file is damaged, is of another class
// of tokenizer, or sets an option that changes the tokens; its tokens end with "</w>"; or its end
// of text has another name than EndOfTextNames() or is not a token. The message names the file, the
// field and the kind of its value, and the line of merges.txt. `folder` names the folder in
// messages.
absl::StatusOr<BpeVocabulary> ParseGpt2Files(const Gpt2Files& files, const std::string& folder);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_GPT2_FILES_H_
