#ifndef MUSTER_WORKER_PREDICT_CSV_EXAMPLES_H_
#define MUSTER_WORKER_PREDICT_CSV_EXAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/csv/csv_columns.h"
#include "proto/data_preparation.pb.h"
#include "worker/data/csv/csv_layout.h"
#include "worker/data/csv/csv_text.h"
#include "worker/data/csv/table_records.h"
#include "worker/predict/example_source.h"

namespace muster {

namespace v1 {
class CsvData;
}  // namespace v1

// The records of CSV or Parquet files, which are read one file after another and never kept. A
// record's columns are its own, as written; the label may be one of them, and is not read. Of
// Parquet files, records have the columns that the model reads.
class CsvExamples final : public ExampleSource {
 public:
  // `preparation` came with the weights. NotFound: no file is there. InvalidArgument: the
  // preparation is for other columns.
  static absl::StatusOr<std::unique_ptr<ExampleSource>> Create(
      const v1::CsvData& csv, LabelKind label_kind, const v1::CsvPreparation& preparation);

  const DatasetInfo& info() const override { return info_; }
  // InvalidArgument: errors of CsvText, CsvRecords and ParquetRecords; there is no example in any
  // file.
  absl::Status Next(int64_t most, Batch& batch, std::vector<std::string>& lines) override;
  char separator() const override { return columns_.separator; }
  absl::optional<absl::string_view> header() const override;
  bool HasColumn(absl::string_view name) const override;

 private:
  CsvExamples(CsvColumns columns, std::vector<std::string> paths, v1::CsvPreparation preparation);

  // Takes the next record, of the next file where one has ended. Returns false at the end.
  absl::StatusOr<bool> NextRecord();
  absl::Status AddRecord(Batch& batch);

  const CsvColumns columns_;
  const std::vector<std::string> paths_;
  const v1::CsvPreparation preparation_;
  DatasetInfo info_;  // Const after construction.
  absl::optional<CsvLayout> layout_;
  std::string header_;
  // Files that were opened; the last one is open.
  size_t opened_ = 0;
  // Null: it is a Parquet file.
  std::unique_ptr<const CsvText> text_;
  std::unique_ptr<TableRecords> records_;
  bool any_ = false;
  // The numbers of one record.
  std::vector<double> numbers_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PREDICT_CSV_EXAMPLES_H_
