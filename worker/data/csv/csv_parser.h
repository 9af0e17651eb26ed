#ifndef MUSTER_WORKER_DATA_CSV_CSV_PARSER_H_
#define MUSTER_WORKER_DATA_CSV_CSV_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Cuts CSV text into records and fields as RFC 4180 has it: fields between separators, records
// ended by LF or CRLF (the last one's may be missing), a field in double quotes may hold
// separators, line ends and, doubled, quotes; spaces and tabs around its quotes do not count. Lines
// without any byte are skipped. Not thread-safe.
class CsvParser {
 public:
  // `text` and `path` must outlive this object; `path` is for messages. REQUIRES: the separator is
  // no quote and no part of a line end.
  CsvParser(absl::string_view text, const std::string& path, char separator = ',');

  // Replaces `fields` by those of the next record; false at the end of the text. InvalidArgument,
  // naming file, line and field: a quote is never closed, or stands inside a field without quotes,
  // or text follows a closing quote.
  absl::StatusOr<bool> Next(std::vector<std::string>& fields);

  // The line that the last record began on, from 1, and its first byte, from 0.
  int64_t line() const { return record_line_; }
  size_t offset() const { return record_offset_; }

 private:
  absl::Status TakeField(size_t number, std::string& field);
  absl::Status TakeQuotedField(size_t number, std::string& field);
  // Spaces and tabs, unless these are separators.
  size_t BlanksAtFront() const;
  // Whether a line end was there; it is taken.
  bool TakeLineEnd();

  const absl::string_view text_;
  const std::string& path_;
  const char separator_;
  absl::string_view rest_;
  // The line that `rest_` begins on.
  int64_t line_ = 1;
  int64_t record_line_ = 1;
  size_t record_offset_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_PARSER_H_
