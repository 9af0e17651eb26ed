#ifndef MUSTER_COMMON_TOKENIZER_SENTENCEPIECE_SENTENCEPIECE_FILE_H_
#define MUSTER_COMMON_TOKENIZER_SENTENCEPIECE_SENTENCEPIECE_FILE_H_

#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/unigram/unigram_tokenizer.h"

namespace muster {

// Reads SentencePiece's tokenizer.model (Kudo, Richardson 2018), a message of
// sentencepiece_model.proto, as the same vocabulary of a tokenizer.json. `origin` names the file in
// errors.
//
// Pieces for controls, which SentencePiece finds in no text, are special added tokens, as Hugging
// Face's readers have them. A BPE file has no merges, but a score for each piece: any two pieces
// that make a piece are a merge, and the merge to the piece with the best score comes first.
//
// InvalidArgument: the bytes are no such message, the model is neither BPE nor unigram, or has an
// option that is not supported; the message says which.
absl::StatusOr<std::variant<BpeVocabulary, UnigramVocabulary>> ParseSentencepieceFile(
    absl::string_view bytes, const std::string& origin);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_SENTENCEPIECE_SENTENCEPIECE_FILE_H_
