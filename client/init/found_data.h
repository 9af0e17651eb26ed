#ifndef MUSTER_CLIENT_INIT_FOUND_DATA_H_
#define MUSTER_CLIENT_INIT_FOUND_DATA_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/init/csv_guess.h"
#include "common/documents/source_options.h"
#include "proto/job.pb.h"

namespace muster {

// Kind of data at a path, judged by its beginning.
struct FoundData {
  // Texts are plain; other sources of documents are kDocuments.
  enum class Kind { kText, kTokens, kDocuments, kTable, kImages, kLibsvm, kLibffm };
  Kind kind = Kind::kText;
  // The path; for tables and documents possibly a pattern (common/files/path_pattern.h) that
  // matches `files` files.
  std::string path;
  size_t files = 1;
  // File of the images' labels.
  std::string labels;
  CsvGuess table;
  // Number of classes, for libsvm, libffm and images.
  uint32_t classes = 0;
  // True if libsvm's features count from 0.
  bool zero_based = false;
  // True if each line of libffm data has at most one feature of a field, all with value 1.
  bool one_per_field = false;
  // Rough number of examples; for texts, tokens and documents the number of bytes.
  uint64_t examples = 0;
  // How a job names texts, tokens and documents (name_documents.h).
  v1::SequenceData sequences;
};

struct LookOptions {
  // Column of a table to predict, as in GuessCsv.
  std::string label;
  // Tokenizer of documents; empty: each byte of text is a token.
  std::string tokenizer;
  SourceArguments documents;
};

// Looks at a file, a folder, or the first file of a pattern. NotFound: there is no such path.
// InvalidArgument: Muster cannot train on the data; the message says what they are and what to do.
absl::StatusOr<FoundData> LookAtData(const std::string& path, const LookOptions& given = {});

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_FOUND_DATA_H_
