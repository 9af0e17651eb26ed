#include "common/documents/json_lines.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/documents/line_reader.h"
#include "common/files/parse_json.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

// Replaces `parts` by the document of a line. `origin` is file and line. Errors do not name it,
// except ParseOrderedJson's.
absl::Status ReadLine(absl::string_view line, const std::string& origin, JsonDocuments& documents,
                      std::vector<TextPart>& parts) {
  if (!IsUtf8(line)) {
    return absl::InvalidArgumentError("the line is not UTF-8; convert the file, with iconv say");
  }
  MUSTER_ASSIGN_OR_RETURN(nlohmann::ordered_json value,
                          ParseOrderedJson(line, origin, kExpectedJson));
  return documents.Read(std::move(value), parts);
}

}  // namespace

absl::Status ForEachJsonLine(const std::string& path, const JsonDocumentOptions& options,
                             TakeDocument take) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(path));
  JsonDocuments documents(options, JsonDocuments::Unit::kLine);
  std::vector<TextPart> parts;
  uint64_t told = 0;
  absl::string_view line;
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool there, reader->Next(line));
    if (options.progress && reader->bytes_read() > told) {
      options.progress(reader->bytes_read() - told);
      told = reader->bytes_read();
    }
    if (!there) return absl::OkStatus();
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const bool skipped = static_cast<uint64_t>(reader->line()) <= options.skip;
    if (skipped && documents.knows_layout()) continue;
    const std::string origin = absl::StrCat(path, ":", reader->line());
    if (const absl::Status status = ReadLine(line, origin, documents, parts); !status.ok()) {
      const std::string message(status.message());
      const std::string cut = reader->ended() ? "" : " (the last line, without an end)";
      if (absl::StartsWith(message, origin)) {
        return absl::Status(status.code(), absl::StrCat(message, cut));
      }
      return absl::Status(status.code(), absl::StrCat(origin, ": ", message, cut));
    }
    if (parts.empty() || skipped) continue;
    Document document;
    document.path = path;
    document.line = reader->line();
    document.parts = parts;
    document.start = documents.start();
    MUSTER_RETURN_IF_ERROR(take(document));
  }
}

}  // namespace muster
