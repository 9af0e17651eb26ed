#ifndef MUSTER_COMMON_TOKENIZER_FILES_OPEN_TOKENIZER_H_
#define MUSTER_COMMON_TOKENIZER_FILES_OPEN_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// The tokenizer that a name stands for: empty or "bytes", the path of a tokenizer.json, a folder
// that holds one or, as GPT-2 came, vocab.json and merges.txt, or a token file, which has its own.
// NotFound: nothing is there. InvalidArgument, DataLoss, FailedPrecondition: a file is damaged, of
// a kind that is not understood, or of a newer format (named).
absl::StatusOr<std::unique_ptr<const Tokenizer>> OpenTokenizer(const std::string& name);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_FILES_OPEN_TOKENIZER_H_
