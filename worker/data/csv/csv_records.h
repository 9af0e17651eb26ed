#ifndef MUSTER_WORKER_DATA_CSV_CSV_RECORDS_H_
#define MUSTER_WORKER_DATA_CSV_CSV_RECORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/csv/csv_columns.h"
#include "common/csv/csv_parser.h"
#include "worker/data/csv/csv_layout.h"
#include "worker/data/csv/csv_text.h"

namespace muster {

// The examples of one CSV file, in order. Not thread-safe.
class CsvRecords {
 public:
  // All outlive this object. `layout` is made from the first record of the first file, and the
  // headers of other files are compared with it.
  CsvRecords(const CsvText& text, const CsvColumns& columns, absl::optional<CsvLayout>& layout);

  // Takes the next example. Returns false at the end. InvalidArgument, naming the file: errors of
  // CsvParser, CsvHeader::Create and CheckSame; or the file holds blank lines only.
  absl::StatusOr<bool> Next();

  // Appends the example's numbers and keys (CsvLayout::Append).
  absl::Status Append(std::vector<double>& numbers, std::vector<uint64_t>& keys) const;

  // Returns the example's label. REQUIRES: Append accepted the record.
  absl::string_view Label() const { return layout_.value().Label(record_); }

  // Return the example's text, and after the first Next that of the header; empty without one. Both
  // are as written, without the line end.
  absl::string_view text() const { return parser_.text(); }
  absl::string_view header() const { return header_; }

  // Return where the example begins, as the parser does.
  int64_t line() const { return parser_.line(); }
  size_t offset() const { return parser_.offset(); }

 private:
  // Returns the file's text from the record on.
  absl::string_view rest() const { return text_.bytes().substr(parser_.offset()); }

  const CsvText& text_;
  const CsvColumns& columns_;
  absl::optional<CsvLayout>& layout_;
  CsvParser parser_;
  bool header_follows_;
  absl::string_view header_;
  std::vector<std::string> record_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_RECORDS_H_
