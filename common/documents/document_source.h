#ifndef MUSTER_COMMON_DOCUMENTS_DOCUMENT_SOURCE_H_
#define MUSTER_COMMON_DOCUMENTS_DOCUMENT_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/documents/document.h"
#include "common/documents/json_lines.h"
#include "common/documents/token_shard.h"

namespace muster {

// Documents are read from this.
struct DocumentSource {
  enum class Form {
    kText,
    kPackedText,
    kJsonLines,
    kParquet,
    kLlmC,
    kNumpy,
    kMegatron,
    kRaw,
    kTokenFile
  };
  Form form = Form::kText;
  // As it was named: a file, a folder, or a pattern (common/files/path_pattern.h).
  std::string path;
  // Its files, in the order in which they are read; of Megatron's the indices.
  std::vector<std::string> files;
  // All files have so many, the tokens of Megatron's among them.
  uint64_t bytes = 0;
  // Type of raw tokens.
  TokenType raw;
};

// Returns a form as people call it, such as "JSON lines".
absl::string_view NameOf(DocumentSource::Form form);

// Returns whether the documents are made of fields (common/documents/json_documents.h), those of
// JSON lines or the columns of Parquet.
bool HasFields(DocumentSource::Form form);

// Returns whether the documents are tokens already.
bool HasTokens(DocumentSource::Form form);

// Looks at the beginnings of a path's files, whose content says what they are, not their names.
// Raw tokens cannot be known by their content: `raw` names their type (TokenTypeNamed); otherwise
// it is empty. Empty files and hidden ones of a folder (common/files/text_files.h) are left out.
//
// NotFound: there is no such file. InvalidArgument: a file is of no known form, files are of
// different forms, or there is none with content. Other errors: a file could not be read.
absl::StatusOr<DocumentSource> FindDocuments(const std::string& path, absl::string_view raw = "");

struct DocumentOptions {
  JsonDocumentOptions json;
  TokenRules tokens;
  // Documents before this place are left out.
  DocumentPosition begin;
};

// Returns a text that is equal for sources with the same documents: their form, and the files with
// their sizes and times of change. NotFound: a file is gone.
absl::StatusOr<std::string> FilesOf(const DocumentSource& source);

// Gives `take` all documents in order. In a folder of texts, files with equal content count once;
// compressed ones count each, and come in parts (Document::continues), which end anywhere.
// Errors name file and line, row or byte: those of ForEachTextFile, ForEachJsonLine,
// ForEachParquetRow, ForEachInRow and ForEachInMegatron. The first error of `take` ends the call.
// REQUIRES: the form is not kTokenFile.
absl::Status ForEachDocument(const DocumentSource& source, const DocumentOptions& options,
                             TakeDocument take);

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_DOCUMENT_SOURCE_H_
