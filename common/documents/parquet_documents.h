#ifndef MUSTER_COMMON_DOCUMENTS_PARQUET_DOCUMENTS_H_
#define MUSTER_COMMON_DOCUMENTS_PARQUET_DOCUMENTS_H_

#include <string>

#include "absl/status/status.h"
#include "common/documents/document.h"
#include "common/documents/json_documents.h"
#include "common/parquet/parquet_file.h"

namespace muster {

// Returns whether a Parquet file has the column of this name, or with an empty one, columns that
// documents are known by.
bool HasDocuments(const ParquetFile& file, const std::string& field);

// Gives `take` the documents of a Parquet file, one of each row: those that lines of JSON with the
// same fields give (JsonDocuments). A field that is null is left out. Columns that no document is
// made of are not read. Document::line is the number of the row.
//
// InvalidArgument, with file and row or column: the file is damaged, has no such columns, has what
// is not read in them (common/parquet), or a row is not as JsonDocuments says. Other errors are
// ParquetFile's. The first error of `take` ends the call.
absl::Status ForEachParquetRow(const std::string& path, const JsonDocumentOptions& options,
                               TakeDocument take);

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_PARQUET_DOCUMENTS_H_
