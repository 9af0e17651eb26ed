#ifndef MUSTER_WORKER_DATA_CSV_PARQUET_RECORDS_H_
#define MUSTER_WORKER_DATA_CSV_PARQUET_RECORDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/csv/csv_columns.h"
#include "common/parquet/parquet_file.h"
#include "common/parquet/parquet_rows.h"
#include "worker/data/csv/csv_layout.h"
#include "worker/data/csv/table_records.h"

namespace muster {

// The rows of a Parquet file as examples: those that a CSV file of the same values has. Null is a
// missing value. Booleans are 1 and 0 as numbers, true and false as labels and categories. Only the
// columns that the job names are read; the text of an example has no others.
class ParquetRecords final : public TableRecords {
 public:
  // `columns` and `layout` outlive this object; `layout` is made from the first file, and the names
  // of other files' columns are compared with it. Errors are those of ParquetFile::Open,
  // FindInParquet and CsvHeader.
  static absl::StatusOr<std::unique_ptr<ParquetRecords>> Open(const std::string& path,
                                                              const CsvColumns& columns,
                                                              absl::optional<CsvLayout>& layout);

  // InvalidArgument: errors of ParquetRows.
  absl::StatusOr<bool> Next() override;
  absl::Status Append(std::vector<double>& numbers, std::vector<uint64_t>& keys) const override;
  absl::string_view Label() const override { return layout_.Label(record_); }
  absl::string_view text() const override { return text_; }
  absl::string_view header() const override { return header_; }
  int64_t line() const override { return rows_->row(); }

 private:
  ParquetRecords(std::unique_ptr<const ParquetFile> file, const CsvColumns& columns,
                 const CsvLayout& layout, std::vector<size_t> fields,
                 std::unique_ptr<ParquetRows> rows);

  // Returns the columns that are read as a line of CSV, out of a record of all.
  std::string LineOf(const std::vector<std::string>& record) const;

  const std::unique_ptr<const ParquetFile> file_;
  const CsvColumns& columns_;
  const CsvLayout& layout_;
  // Places of the columns that are read, and whether each is a number that the file has as
  // booleans.
  const std::vector<size_t> fields_;
  std::vector<bool> is_boolean_number_;
  const std::unique_ptr<ParquetRows> rows_;
  std::string header_;
  // All columns; those that are not read stay empty.
  std::vector<std::string> record_;
  std::string text_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_PARQUET_RECORDS_H_
