#ifndef MUSTER_COMMON_DOCUMENTS_TOKENIZE_DOCUMENTS_H_
#define MUSTER_COMMON_DOCUMENTS_TOKENIZE_DOCUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/documents/document_source.h"
#include "common/files/output_file.h"
#include "common/tokenizer/files/token_file.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

struct TokenizeOptions {
  // The file does not depend on these.
  int threads = 1;
  // Text that the threads encode at once; more if there are many threads.
  size_t batch_bytes = size_t{4} << 20;
  // Progress is kept whenever so much more text was added: a run that is stopped loses no more.
  size_t keep_bytes = size_t{64} << 20;
  // Called after each batch with the bytes that the unfinished file has. Its error ends the call.
  // May be empty.
  std::function<absl::Status(uint64_t bytes)> added;
};

// Makes a token file of all documents of a source, or goes on with one that was stopped, with the
// same bytes as if it had not been (TokenFileWriter::GoOn): a file that was made of other source
// files, or with other options, begins anew.
//
// Parts that are to be learned and others are encoded apart, as a prompt is when a model is asked,
// so each token is of one part. After a document of a line comes the end-of-text, which is learned
// if the document's end is, unless the document ends with it already. Between texts of whole files
// there is one, too; after the last one there is none (TokenFileWriter). Tokens are taken as they
// are. Lines, and the parts of long texts (Tokenizer::SplitAfter), are encoded on several threads.
//
// `options.tokens` need not have the vocabulary, and `options.begin` is of no account. Errors are
// ForEachDocument's and the writer's. After InvalidArgument, which the source is to blame for,
// nothing is left of the file.
absl::StatusOr<TokenFileSummary> MakeTokenFile(const DocumentSource& source,
                                               const DocumentOptions& options,
                                               const Tokenizer& tokenizer,
                                               const TokenizeOptions& tokenize,
                                               const std::string& out, Replace replace);

// Returns a text that is equal for equal token files: it names the source's files with their sizes
// and times of change, and has the options and fingerprints of tokenizer and chat template. Errors
// are FilesOf's.
absl::StatusOr<std::string> TokenFileSource(const DocumentSource& source,
                                            const DocumentOptions& options,
                                            const Tokenizer& tokenizer);

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_TOKENIZE_DOCUMENTS_H_
