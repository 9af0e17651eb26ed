#include "worker/data/csv/parquet_records.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "common/base/status_macros.h"
#include "common/csv/csv_header.h"
#include "common/csv/parquet_table.h"

namespace muster {

absl::StatusOr<std::unique_ptr<ParquetRecords>> ParquetRecords::Open(
    const std::string& path, const CsvColumns& columns, absl::optional<CsvLayout>& layout) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const ParquetFile> file, ParquetFile::Open(path));
  MUSTER_RETURN_IF_ERROR(CheckColumns(columns));
  MUSTER_ASSIGN_OR_RETURN(std::vector<size_t> fields, FindInParquet(*file, columns));
  const std::vector<std::string> names = NamesOfColumns(*file);
  if (layout.has_value()) {
    MUSTER_RETURN_IF_ERROR(layout->header().CheckSame(path, 1, names));
  } else {
    MUSTER_ASSIGN_OR_RETURN(CsvHeader header, CsvHeader::Create(path, columns, names, ""));
    layout.emplace(columns, std::move(header));
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<ParquetRows> rows, ParquetRows::Open(*file, fields));
  return absl::WrapUnique(
      new ParquetRecords(std::move(file), columns, *layout, std::move(fields), std::move(rows)));
}

ParquetRecords::ParquetRecords(std::unique_ptr<const ParquetFile> file, const CsvColumns& columns,
                               const CsvLayout& layout, std::vector<size_t> fields,
                               std::unique_ptr<ParquetRows> rows)
    : file_(std::move(file)),
      columns_(columns),
      layout_(layout),
      fields_(std::move(fields)),
      rows_(std::move(rows)),
      header_(LineOf(NamesOfColumns(*file_))),
      record_(file_->schema().fields.size()) {
  const std::vector<std::string> numbers = columns.numbers();
  for (const size_t field : fields_) {
    const ParquetNode& node = file_->schema().fields[field];
    is_boolean_number_.push_back(
        file_->schema().columns[node.first_column].type == ParquetType::kBoolean &&
        std::find(numbers.begin(), numbers.end(), node.name) != numbers.end());
  }
}

std::string ParquetRecords::LineOf(const std::vector<std::string>& record) const {
  std::string line;
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (i > 0) line += columns_.separator;
    AppendCsvField(record[fields_[i]], columns_.separator, line);
  }
  return line;
}

absl::StatusOr<bool> ParquetRecords::Next() {
  MUSTER_ASSIGN_OR_RETURN(const bool more, rows_->Next());
  if (!more) return false;
  for (size_t i = 0; i < fields_.size(); ++i) {
    std::string& value = record_[fields_[i]];
    MUSTER_RETURN_IF_ERROR(rows_->TakeText(i, value));
    if (is_boolean_number_[i] && !value.empty()) value = value == "true" ? "1" : "0";
  }
  text_ = LineOf(record_);
  return true;
}

absl::Status ParquetRecords::Append(std::vector<double>& numbers,
                                    std::vector<uint64_t>& keys) const {
  return layout_.Append(file_->path(), rows_->row(), record_, text_, numbers, keys);
}

}  // namespace muster
