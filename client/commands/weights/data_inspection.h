#ifndef MUSTER_CLIENT_COMMANDS_WEIGHTS_DATA_INSPECTION_H_
#define MUSTER_CLIENT_COMMANDS_WEIGHTS_DATA_INSPECTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/terminal/terminal.h"
#include "common/documents/document_source.h"
#include "common/tokenizer/files/token_file.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// A document as people see it: with the parts that are learned, and, if it has tokens, a bar
// between each two of them.
struct ShownDocument {
  // File and line.
  std::string place;
  std::vector<TextPiece> pieces;
};

// `muster data inspect` finds this in data.
struct DataInspection {
  uint64_t documents = 0;
  // Of text, and of it to be learned; 0: there are only tokens.
  uint64_t text_bytes = 0;
  uint64_t learned_bytes = 0;
  // 0: no tokenizer is known.
  uint64_t tokens = 0;
  uint64_t learned_tokens = 0;
  // The shares of padding that sequences of so many tokens would have if documents stayed whole
  // (common/packing/whole_documents.h), where ends of documents are known.
  struct Padding {
    int64_t context = 0;
    double share = 0;
  };
  std::vector<Padding> padding;
  // The first documents, cut where they are long.
  std::vector<ShownDocument> examples;
};

// Reads all documents of a source, so that whatever is wrong with one of them is said. Without a
// tokenizer texts have no tokens, and tokens no documents. Errors are ForEachDocument's.
absl::StatusOr<DataInspection> InspectDocuments(const DocumentSource& source,
                                                const DocumentOptions& options,
                                                const Tokenizer* tokenizer);

// Reads a token file. DataLoss: it is damaged.
absl::StatusOr<DataInspection> InspectTokenFile(const std::string& path, const TokenFile& file);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_WEIGHTS_DATA_INSPECTION_H_
