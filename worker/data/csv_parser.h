#ifndef MUSTER_WORKER_DATA_CSV_PARSER_H_
#define MUSTER_WORKER_DATA_CSV_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Cuts CSV text into records and fields as RFC 4180 has it: fields between commas, records ended by
// LF or CRLF (the last one's may be missing), a field in double quotes may hold commas, line ends
// and, doubled, quotes. Lines without any byte are skipped, as is a byte-order mark at the start.
// Not thread-safe.
class CsvParser {
 public:
  // `text` must outlive this object; `path` is for messages.
  CsvParser(absl::string_view text, std::string path);

  // Replaces `fields` by those of the next record; false at the end of the text. InvalidArgument,
  // naming file and line: a quote is never closed, or stands inside a field without quotes, or text
  // follows a closing quote.
  absl::StatusOr<bool> Next(std::vector<std::string>& fields);

  // The line that the last record began on, from 1.
  int64_t line() const { return record_line_; }

 private:
  absl::Status TakeField(std::string& field);
  absl::Status TakeQuotedField(std::string& field);
  // Whether a line end was there; it is taken.
  bool TakeLineEnd();

  absl::string_view rest_;
  const std::string path_;
  // The line that `rest_` begins on.
  int64_t line_ = 1;
  int64_t record_line_ = 1;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_PARSER_H_
