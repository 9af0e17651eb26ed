#ifndef MUSTER_COMMON_CSV_CSV_PARSER_H_
#define MUSTER_COMMON_CSV_CSV_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Splits CSV text into records and fields (RFC 4180). Separators stand between fields; LF or CRLF
// ends a record, except perhaps the last. A field in double quotes may hold separators, line ends
// and doubled quotes; spaces and tabs around its quotes do not count. Empty lines are skipped. Not
// thread-safe.
class CsvParser {
 public:
  // `text` and `path` outlive this object; `path` is for messages. REQUIRES: the separator is no
  // quote and no part of a line end.
  CsvParser(absl::string_view text, const std::string& path, char separator = ',');

  // Replaces `fields` by the fields of the next record. Returns false at the end of the text.
  // InvalidArgument, naming file, line and field: a quote is never closed or stands inside a field
  // without quotes, or text follows a closing quote.
  absl::StatusOr<bool> Next(std::vector<std::string>& fields);

  // Return where the last record begins: its line, counted from 1, and its byte, counted from 0.
  int64_t line() const { return record_line_; }
  size_t offset() const { return record_offset_; }

  // Returns the last record as written, without its line end.
  absl::string_view text() const { return record_text_; }

 private:
  absl::Status TakeField(size_t number, std::string& field);
  absl::Status TakeQuotedField(size_t number, std::string& field);
  // Returns the number of spaces and tabs at the front, without separators.
  size_t BlanksAtFront() const;
  // Takes a line end at the front. Returns whether there was one.
  bool TakeLineEnd();

  const absl::string_view text_;
  const std::string& path_;
  const char separator_;
  absl::string_view rest_;
  // The line on which `rest_` begins.
  int64_t line_ = 1;
  int64_t record_line_ = 1;
  size_t record_offset_ = 0;
  absl::string_view record_text_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CSV_CSV_PARSER_H_
