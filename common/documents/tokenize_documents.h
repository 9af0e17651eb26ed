#ifndef MUSTER_COMMON_DOCUMENTS_TOKENIZE_DOCUMENTS_H_
#define MUSTER_COMMON_DOCUMENTS_TOKENIZE_DOCUMENTS_H_

#include "absl/status/status.h"
#include "common/documents/document_source.h"
#include "common/tokenizer/files/token_file.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// Appends all documents of a source to a token file.
//
// Parts that are to be learned and others are encoded apart, as a prompt is when a model is asked,
// so each token is of one part. After a document of a line comes the end-of-text, which is learned
// if the document's end is, unless the document ends with it already. Between texts of whole files
// there is one, too; after the last one there is none (TokenFileWriter). Tokens are taken as they
// are.
//
// Lines are encoded on `threads` threads, some MiB at a time; the file does not depend on them.
// `options.tokens` need not have the vocabulary. Errors are ForEachDocument's and the writer's.
absl::Status TokenizeDocuments(const DocumentSource& source, const DocumentOptions& options,
                               const Tokenizer& tokenizer, int threads, TokenFileWriter& writer);

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_TOKENIZE_DOCUMENTS_H_
