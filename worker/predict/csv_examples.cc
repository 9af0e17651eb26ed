#include "worker/predict/csv_examples.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/path_pattern.h"
#include "common/parquet/parquet_file.h"
#include "proto/job.pb.h"
#include "worker/data/csv/csv_preparation.h"
#include "worker/data/csv/csv_records.h"
#include "worker/data/csv/parquet_records.h"

namespace muster {

absl::StatusOr<std::unique_ptr<ExampleSource>> CsvExamples::Create(
    const v1::CsvData& csv, LabelKind label_kind, const v1::CsvPreparation& preparation) {
  MUSTER_ASSIGN_OR_RETURN(CsvColumns columns, CsvColumnsOf(csv));
  columns.label_kind = label_kind;
  columns.labels = CsvColumns::Labels::kPredicted;
  MUSTER_RETURN_IF_ERROR(CheckPreparation(preparation, columns.numbers(), label_kind));
  MUSTER_ASSIGN_OR_RETURN(std::vector<std::string> paths, FilesOfPattern(csv.path()));
  return absl::WrapUnique<ExampleSource>(
      new CsvExamples(std::move(columns), std::move(paths), preparation));
}

CsvExamples::CsvExamples(CsvColumns columns, std::vector<std::string> paths,
                         v1::CsvPreparation preparation)
    : columns_(std::move(columns)), paths_(std::move(paths)), preparation_(std::move(preparation)) {
  info_.dense_features = static_cast<int64_t>(columns_.numeric.size());
  info_.sparse = !columns_.categorical.empty();
  info_.fields = static_cast<int64_t>(columns_.categorical.size());
  if (columns_.label_kind == LabelKind::kNumber) {
    info_.target = ScaleOfTarget(preparation_);
  } else {
    info_.classes = std::max(2, preparation_.classes_size());
  }
}

absl::optional<absl::string_view> CsvExamples::header() const {
  if (columns_.header == CsvColumns::Header::kNone) return absl::nullopt;
  return header_;
}

bool CsvExamples::HasColumn(absl::string_view name) const {
  const std::vector<std::string>& names = layout_->header().names();
  return columns_.header == CsvColumns::Header::kFirstLine &&
         std::find(names.begin(), names.end(), name) != names.end();
}

absl::Status CsvExamples::Next(int64_t most, Batch& batch, std::vector<std::string>& lines) {
  batch.Clear();
  lines.clear();
  while (batch.examples < most) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, NextRecord());
    if (!more) break;
    MUSTER_RETURN_IF_ERROR(AddRecord(batch));
    lines.emplace_back(records_->text());
  }
  any_ = any_ || batch.examples > 0;
  if (!any_) {
    return absl::InvalidArgumentError(absl::StrCat("File '", paths_.front(), "' has no example",
                                                   paths_.size() > 1 ? ", nor have the others" : "",
                                                   "; there is nothing to predict"));
  }
  batch.values.assign(batch.keys.size(), 1.0f);
  if (info_.target.has_value()) {
    batch.targets.assign(batch.examples, 0.0f);
  } else {
    batch.labels.assign(batch.examples, 0);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CsvExamples::NextRecord() {
  while (true) {
    if (records_ != nullptr) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, records_->Next());
      if (opened_ == 1) header_ = std::string(records_->header());
      if (more) return true;
    }
    if (opened_ == paths_.size()) return false;
    records_.reset();
    text_.reset();
    const std::string& path = paths_[opened_++];
    if (IsParquetAt(path)) {
      MUSTER_ASSIGN_OR_RETURN(records_, ParquetRecords::Open(path, columns_, layout_));
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(CsvText text, CsvText::Open(path));
    text_ = std::make_unique<const CsvText>(std::move(text));
    records_ = std::make_unique<CsvRecords>(*text_, columns_, layout_);
  }
}

absl::Status CsvExamples::AddRecord(Batch& batch) {
  numbers_.clear();
  MUSTER_RETURN_IF_ERROR(records_->Append(numbers_, batch.keys));
  for (size_t column = 0; column < numbers_.size(); ++column) {
    batch.dense.push_back(Prepared(numbers_[column], preparation_.numeric(column)));
  }
  if (info_.sparse) batch.offsets.push_back(static_cast<int64_t>(batch.keys.size()));
  ++batch.examples;
  return absl::OkStatus();
}

}  // namespace muster
