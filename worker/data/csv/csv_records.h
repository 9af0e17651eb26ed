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
#include "worker/data/csv/table_records.h"

namespace muster {

// The examples of one CSV file. Their texts are as written.
class CsvRecords final : public TableRecords {
 public:
  // All outlive this object. `layout` is made from the first record of the first file, and the
  // headers of other files are compared with it.
  CsvRecords(const CsvText& text, const CsvColumns& columns, absl::optional<CsvLayout>& layout);

  // InvalidArgument: errors of CsvParser, CsvHeader::Create and CheckSame; or the file holds blank
  // lines only.
  absl::StatusOr<bool> Next() override;
  absl::Status Append(std::vector<double>& numbers, std::vector<uint64_t>& keys) const override;
  absl::string_view Label() const override { return layout_.value().Label(record_); }
  absl::string_view text() const override { return parser_.text(); }
  absl::string_view header() const override { return header_; }
  int64_t line() const override { return parser_.line(); }

  // Returns the byte of the file's text at which the example begins.
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
