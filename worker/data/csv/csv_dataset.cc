#include "worker/data/csv/csv_dataset.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/files/path_pattern.h"
#include "common/parquet/parquet_file.h"
#include "worker/data/csv/csv_labels.h"
#include "worker/data/csv/csv_preparation.h"
#include "worker/data/csv/csv_records.h"
#include "worker/data/csv/parquet_records.h"
#include "worker/data/csv/table_records.h"
#include "worker/data/sampling/learned_from.h"

namespace muster {
namespace {

// Returns bytes that differ between any two choices of columns. Defaults add no bytes, so
// fingerprints of earlier releases stay the same.
std::string Identity(const CsvColumns& columns) {
  std::string identity = absl::StrCat(columns.label.size(), ":", columns.label);
  for (const auto* names : {&columns.numeric, &columns.categorical}) {
    absl::StrAppend(&identity, "/", names->size());
    for (const std::string& name : *names) absl::StrAppend(&identity, "/", name.size(), ":", name);
  }
  if (columns.separator != ',') identity += std::string("/separator") + columns.separator;
  if (columns.header == CsvColumns::Header::kNone) absl::StrAppend(&identity, "/no_header");
  if (columns.label_kind == LabelKind::kNumber) absl::StrAppend(&identity, "/number");
  return identity;
}

uint64_t BytesOf(const std::vector<std::string>& paths) {
  uint64_t sum = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(path, error);
    if (!error) sum += bytes;
  }
  return sum;
}

}  // namespace

// Fills a dataset file by file.
class CsvDataset::Builder {
 public:
  enum class Keep { kNumbers, kPlaces };

  Builder(const std::vector<std::string>& paths, const CsvColumns& columns,
          const CsvOptions& options)
      : paths_(paths),
        options_(options),
        is_parquet_(IsParquetAt(paths.front())),
        keep_(is_parquet_ || BytesOf(paths) < options.keep_below_bytes ? Keep::kNumbers
                                                                       : Keep::kPlaces),
        dataset_(absl::WrapUnique(new CsvDataset(columns))) {}

  absl::StatusOr<std::unique_ptr<const CsvDataset>> Build() {
    for (const std::string& path : paths_) {
      if (IsParquetAt(path) != is_parquet_) return OtherForm(path);
      MUSTER_RETURN_IF_ERROR(is_parquet_ ? TakeParquet(path) : TakeText(path));
    }
    if (examples_ == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          is_parquet_ ? "Parquet file '" : "CSV file '", paths_.front(),
          is_parquet_ ? "' has no rows" : "' has a header and no line after it",
          paths_.size() > 1 ? ", nor have the others" : "", "; training needs examples"));
    }
    return Finish();
  }

 private:
  const CsvColumns& columns() const { return dataset_->columns_; }

  absl::Status OtherForm(const std::string& path) const {
    const auto name = [](bool is_parquet) { return is_parquet ? "a Parquet file" : "text"; };
    return absl::InvalidArgumentError(absl::StrCat(
        "data.csv.path names files of different forms: '", paths_.front(), "' is ",
        name(is_parquet_), ", '", path, "' ", name(!is_parquet_), "; name those of one form"));
  }

  // The path outlives the labels, which note it; so does that of TakeParquet.
  absl::Status TakeText(const std::string& path) {
    FileContentOptions options;
    if (keep_ == Keep::kPlaces) options.map_from_bytes = 1;
    MUSTER_ASSIGN_OR_RETURN(CsvText text, CsvText::Open(path, options));
    content_fingerprint_ = Fingerprint(text.content(), content_fingerprint_);
    dataset_->first_.push_back(examples_);
    CsvRecords records(text, columns(), dataset_->layout_);
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, records.Next());
      if (!more) break;
      if (keep_ == Keep::kPlaces) {
        numbers_.clear();
        keys_.clear();
        dataset_->offsets_.push_back(records.offset());
      }
      MUSTER_RETURN_IF_ERROR(TakeRecord(path, records));
    }
    if (keep_ == Keep::kPlaces) dataset_->texts_.push_back(std::move(text));
    return absl::OkStatus();
  }

  // Only the columns that are read count for the fingerprint: the others are not unpacked.
  absl::Status TakeParquet(const std::string& path) {
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<ParquetRecords> records,
                            ParquetRecords::Open(path, columns(), dataset_->layout_));
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, records->Next());
      if (!more) return absl::OkStatus();
      content_fingerprint_ = Fingerprint(records->text(), content_fingerprint_);
      MUSTER_RETURN_IF_ERROR(TakeRecord(path, *records));
    }
  }

  absl::Status TakeRecord(const std::string& path, const TableRecords& records) {
    MUSTER_RETURN_IF_ERROR(records.Append(numbers_, keys_));
    ++examples_;
    if (columns().label_kind == LabelKind::kNumber) return absl::OkStatus();
    return labels_.Add(records.Label(), path, records.line());
  }

  absl::StatusOr<std::unique_ptr<const CsvDataset>> Finish() {
    CsvDataset& dataset = *dataset_;
    MUSTER_RETURN_IF_ERROR(Prepare());
    if (columns().label_kind == LabelKind::kNumber) {
      dataset.info_.target = ScaleOfTarget(dataset.preparation_);
    } else {
      const std::vector<std::string> classes(dataset.preparation_.classes().begin(),
                                             dataset.preparation_.classes().end());
      MUSTER_ASSIGN_OR_RETURN(CsvLabels::Result labels, labels_.Finish(classes));
      dataset.labels_ = std::move(labels.labels);
      dataset.info_.classes = labels.classes;
    }
    dataset.info_.examples = examples_;
    dataset.info_.dense_features = static_cast<int64_t>(columns().numeric.size());
    dataset.info_.sparse = !columns().categorical.empty();
    dataset.info_.fields = static_cast<int64_t>(columns().categorical.size());
    v1::DataPreparation preparation;
    *preparation.mutable_csv() = dataset.preparation_;
    dataset.info_.preparation = preparation.SerializeAsString();
    // The same file with other columns is other data.
    dataset.fingerprint_ = Fingerprint(Identity(columns()), content_fingerprint_);
    if (keep_ == Keep::kNumbers) {
      dataset.keys_ = std::move(keys_);
      dataset.numbers_.resize(numbers_.size());
      const size_t width = dataset.numbers();
      for (size_t i = 0; i < numbers_.size(); i += width) {
        for (size_t column = 0; column < width; ++column) {
          dataset.numbers_[i + column] =
              Prepared(numbers_[i + column], dataset.preparation_.numeric(column));
        }
      }
    }
    return std::move(dataset_);
  }

  // Learns the preparation, or takes the one that came with the weights.
  absl::Status Prepare() {
    v1::CsvPreparation& preparation = dataset_->preparation_;
    const std::vector<std::string> numbers = columns().numbers();
    if (options_.preparation != nullptr) {
      preparation = *options_.preparation;
      return CheckPreparation(preparation, numbers, columns().label_kind);
    }
    MUSTER_ASSIGN_OR_RETURN(const std::vector<bool> learned_from,
                            LearnedFrom(examples_, options_.holdout, options_.shuffle_seed));
    if (columns().label_kind == LabelKind::kClass) {
      MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> classes, labels_.Learn());
      for (const std::string& name : classes) preparation.add_classes(name);
    }
    const size_t width = numbers.size();
    ColumnMoments moments(width);
    // Follows the files' order, not the examples', since large files are read from the disk here.
    for (int64_t i = 0; i < examples_ && width > 0; ++i) {
      if (!learned_from[i]) continue;
      absl::Span<const double> row = absl::MakeSpan(numbers_);
      if (keep_ == Keep::kNumbers) {
        row = row.subspan(i * width, width);
      } else {
        numbers_.clear();
        keys_.clear();
        MUSTER_RETURN_IF_ERROR(dataset_->ReadRecord(i, record_, numbers_, keys_));
        row = absl::MakeSpan(numbers_);
      }
      moments.Add(row);
    }
    AddLearned(numbers, moments, columns().label_kind, preparation);
    return absl::OkStatus();
  }

  const std::vector<std::string>& paths_;
  const CsvOptions& options_;
  const bool is_parquet_;
  const Keep keep_;
  std::unique_ptr<CsvDataset> dataset_;
  int64_t examples_ = 0;
  // Of labels that are classes.
  CsvLabels labels_;
  // Row-major. If only places are kept, the values of one record.
  std::vector<double> numbers_;
  std::vector<uint64_t> keys_;
  std::vector<std::string> record_;
  uint64_t content_fingerprint_ = 0;
};

absl::StatusOr<std::unique_ptr<const CsvDataset>> CsvDataset::Create(const std::string& path,
                                                                     const CsvColumns& columns,
                                                                     const CsvOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> paths, FilesOfPattern(path));
  return Builder(paths, columns, options).Build();
}

absl::Status CsvDataset::ReadRecord(int64_t index, std::vector<std::string>& record,
                                    std::vector<double>& numbers,
                                    std::vector<uint64_t>& keys) const {
  const size_t file = std::upper_bound(first_.begin(), first_.end(), index) - first_.begin() - 1;
  const CsvText& text = texts_[file];
  const absl::string_view rest = text.bytes().substr(offsets_[index]);
  CsvParser parser(rest, text.path(), columns_.separator);
  absl::Status status = parser.Next(record).status();
  if (status.ok()) {
    status = layout_->Append(text.path(), parser.line(), record, rest, numbers, keys);
  }
  if (status.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "CSV file '", text.path(), "' was changed while it was in use: example ", index, ", at byte ",
      offsets_[index], ", is no record any more; leave a running job's data as they are"));
}

absl::Status CsvDataset::Read(absl::Span<const int64_t> indices, Batch& batch) const {
  batch.Clear();
  batch.examples = static_cast<int64_t>(indices.size());
  if (texts_.empty()) {
    ReadKept(indices, batch);
  } else {
    MUSTER_RETURN_IF_ERROR(ReadPlaced(indices, batch));
  }
  if (!info_.target.has_value()) {
    for (const int64_t index : indices) batch.labels.push_back(labels_[index]);
  }
  batch.values.assign(batch.keys.size(), 1.0f);
  return absl::OkStatus();
}

void CsvDataset::ReadKept(absl::Span<const int64_t> indices, Batch& batch) const {
  const int64_t features = info_.dense_features;
  const int64_t fields = info_.fields;
  for (const int64_t index : indices) {
    const auto dense = numbers_.begin() + index * static_cast<int64_t>(numbers());
    batch.dense.insert(batch.dense.end(), dense, dense + features);
    if (info_.target.has_value()) batch.targets.push_back(dense[features]);
    if (fields == 0) continue;
    const auto keys = keys_.begin() + index * fields;
    batch.keys.insert(batch.keys.end(), keys, keys + fields);
    batch.offsets.push_back(static_cast<int64_t>(batch.keys.size()));
  }
}

absl::Status CsvDataset::ReadPlaced(absl::Span<const int64_t> indices, Batch& batch) const {
  std::vector<std::string> record;
  std::vector<double> numbers;
  for (const int64_t index : indices) {
    numbers.clear();
    MUSTER_RETURN_IF_ERROR(ReadRecord(index, record, numbers, batch.keys));
    for (size_t column = 0; column < numbers.size(); ++column) {
      const bool is_target = static_cast<int64_t>(column) == info_.dense_features;
      (is_target ? batch.targets : batch.dense)
          .push_back(Prepared(numbers[column], preparation_.numeric(column)));
    }
    if (info_.sparse) batch.offsets.push_back(static_cast<int64_t>(batch.keys.size()));
  }
  return absl::OkStatus();
}

}  // namespace muster
