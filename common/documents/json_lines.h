#ifndef MUSTER_COMMON_DOCUMENTS_JSON_LINES_H_
#define MUSTER_COMMON_DOCUMENTS_JSON_LINES_H_

#include <string>

#include "absl/status/status.h"
#include "common/documents/document.h"
#include "common/documents/json_documents.h"

namespace muster {

// Gives `take` the documents of a file with a JSON value on each line (JsonDocuments), which may be
// compressed. Blank lines are skipped.
//
// InvalidArgument, with file and line: a line is no JSON, not UTF-8, too long, or not as above.
// Other errors are UnpackedFile's, with the line. The first error of `take` ends the call.
absl::Status ForEachJsonLine(const std::string& path, const JsonDocumentOptions& options,
                             TakeDocument take);

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_JSON_LINES_H_
