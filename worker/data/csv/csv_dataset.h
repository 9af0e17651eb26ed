#ifndef MUSTER_WORKER_DATA_CSV_CSV_DATASET_H_
#define MUSTER_WORKER_DATA_CSV_CSV_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/csv/csv_columns.h"
#include "common/job_data/csv_head.h"
#include "proto/data_preparation.pb.h"
#include "worker/data/batch.h"
#include "worker/data/csv/csv_layout.h"
#include "worker/data/csv/csv_text.h"
#include "worker/data/dataset.h"

namespace muster {

struct CsvOptions {
  // Share of the examples, at the end, that the preparation is not learned from (see split.h). If
  // this leaves no examples, all are learned from.
  double holdout = 0;
  // Seed of the order whose end is held out; unset for the order of the files.
  absl::optional<uint64_t> shuffle_seed;
  // The preparation that came with the weights; null to learn one. Used only by Create.
  const v1::CsvPreparation* preparation = nullptr;
  // If all CSV files together have fewer bytes, they are parsed once and kept as numbers.
  uint64_t keep_below_bytes = kCsvKeptBelowBytes;
};

// Examples from CSV files, plain or gzip (common/csv/csv_parser.h has the syntax), with a header
// line in each file or in none; or from Parquet files, known by their content (parquet_records.h).
// Spaces around a value do not count; an empty value is missing.
//
// Dense features are the numeric columns, in the order asked for. A preparation
// (proto/data_preparation.proto) turns their values into numbers and labels into classes. The
// preparation is learned from the training examples, or comes with the weights (csv_preparation.h,
// csv_labels.h). Fields are the categorical columns, in the order asked for. A key is the hash of
// the text and the field's number; a missing value is a category of its own. Categories are not
// learned here: a category that no training example has gets a key without pushes, which reads as
// its row's initial value.
//
// A label that is a number to predict is prepared like a numeric column, and becomes a target.
//
// Small files are kept in memory as numbers (4 bytes per number, 8 per category, 4 per label).
// Large files are mapped, or unpacked into memory if they are gzip; only each record's place and
// class are kept (12 bytes per example), and Read parses the records. Both ways give the same bits.
// Parquet files of any size are kept as numbers: rows cannot be read from the middle of a page.
class CsvDataset : public Dataset {
 public:
  // `path` is a file or a pattern (common/files/path_pattern.h). NotFound: no file is there.
  // InvalidArgument: a file is malformed (names line, column and remedy), its header differs from
  // the first file's, there is no example, a column is missing, there twice or used twice, or the
  // preparation is for other columns or classes.
  static absl::StatusOr<std::unique_ptr<const CsvDataset>> Create(const std::string& path,
                                                                  const CsvColumns& columns,
                                                                  const CsvOptions& options = {});

  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  // InvalidArgument: a file was changed since Create.
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

 private:
  class Builder;

  explicit CsvDataset(const CsvColumns& columns) : columns_(columns) {}

  // Append the features, fields and targets of examples, of small files and of large files.
  void ReadKept(absl::Span<const int64_t> indices, Batch& batch) const;
  absl::Status ReadPlaced(absl::Span<const int64_t> indices, Batch& batch) const;
  // Returns how many numbers an example has: its features and its target.
  size_t numbers() const { return preparation_.numeric_size(); }
  // Parses an example's record, and appends its numbers and keys.
  absl::Status ReadRecord(int64_t index, std::vector<std::string>& record,
                          std::vector<double>& numbers, std::vector<uint64_t>& keys) const;

  // All const after Create.
  const CsvColumns columns_;
  absl::optional<CsvLayout> layout_;
  v1::CsvPreparation preparation_;
  // Classes; empty if labels are numbers.
  std::vector<int32_t> labels_;
  // Small files: [examples, numbers()] and [examples, fields]. A target is the last number.
  std::vector<float> numbers_;
  std::vector<uint64_t> keys_;
  // Large files: file f has the examples from first_[f] on. offsets_ has the place in the file's
  // text at which each example's record begins.
  std::vector<CsvText> texts_;
  std::vector<int64_t> first_;
  std::vector<uint64_t> offsets_;
  DatasetInfo info_;
  uint64_t fingerprint_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_DATASET_H_
