#ifndef MUSTER_COMMON_TOKENIZER_FILES_OPEN_TOKENIZER_H_
#define MUSTER_COMMON_TOKENIZER_FILES_OPEN_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// Opens the tokenizer that a name means: "bytes" or empty; the path of a tokenizer.json, or of
// SentencePiece's tokenizer.model, whose name ends with ".model"; a folder that holds one, or
// vocab.json and merges.txt as GPT-2 had; or a token file, which holds its own tokenizer. NotFound:
// there is no such path. InvalidArgument, DataLoss, FailedPrecondition: a file is damaged, of an
// unsupported kind, or of a newer format; the message names it.
absl::StatusOr<std::unique_ptr<const Tokenizer>> OpenTokenizer(const std::string& name);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_FILES_OPEN_TOKENIZER_H_
