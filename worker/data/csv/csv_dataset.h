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
#include "common/files/file_content.h"
#include "common/job_data/csv_head.h"
#include "proto/data_preparation.pb.h"
#include "worker/data/batch.h"
#include "worker/data/csv/csv_layout.h"
#include "worker/data/dataset.h"
#include "worker/data/sampling/example_order.h"

namespace muster {

struct CsvOptions {
  // Share of the examples, at the end, that nothing is learned from (see split.h); all are learned
  // from where this leaves none.
  double holdout = 0;
  // The order whose end is held out: the files' own, or one drawn by this seed.
  absl::optional<uint64_t> shuffle_seed;
  // Not null: what came with the weights; nothing is learned. Needed by Create alone.
  const v1::CsvPreparation* preparation = nullptr;
  // Files of fewer bytes together are parsed once, and kept as numbers.
  uint64_t keep_below_bytes = kCsvKeptBelowBytes;
};

// CSV files, plain or gzip (csv_parser.h tells the syntax), with a header line in each or none at
// all. Spaces around a value do not count and an empty value is a missing one.
//
// The dense features are the numeric columns in the order asked for, and the labels become classes,
// by a preparation (proto/data_preparation.proto) that is learned from the training examples, or
// comes with the weights (csv_preparation.h, csv_labels.h). The fields are the categorical columns
// in the order asked for; a key is the hash of the text and of the field's number, and a missing
// value is a category of its own. Nothing about categories is learned here: one that no training
// example had has a key that nobody pushed to, and so reads its row's initial value.
//
// Small files are kept in memory as numbers (4 bytes a number, 8 a category, 4 a label). Of large
// ones, where each record begins and its label are kept (12 bytes an example), and Read parses the
// files, which are mapped; a large file that is packed is unpacked into memory. Both give the same
// bits.
class CsvDataset : public Dataset {
 public:
  // `path` is a file or a pattern (common/files/path_pattern.h). NotFound: no file is there.
  // InvalidArgument: a file is malformed (names line, column and remedy) or its header is another
  // one than the first file's, there is no example, a column asked for is not there, there twice,
  // or used twice, or the preparation is for other columns or classes.
  static absl::StatusOr<std::unique_ptr<const CsvDataset>> Create(const std::string& path,
                                                                  const CsvColumns& columns,
                                                                  const CsvOptions& options = {});

  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  // InvalidArgument: a file was changed since Create.
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

 private:
  class Builder;

  // The text of a file: its content, or what that unpacks to.
  struct Text {
    std::string path;
    absl::optional<FileContent> file;
    std::string unpacked;

    // Without a byte-order mark. Valid while this object stays where it is.
    absl::string_view bytes() const;
  };
  static absl::StatusOr<Text> OpenText(const std::string& path, const FileContentOptions& options);

  explicit CsvDataset(const CsvColumns& columns) : columns_(columns) {}

  // Append features and fields of the examples: of small files, and of large ones.
  void ReadKept(absl::Span<const int64_t> indices, Batch& batch) const;
  absl::Status ReadPlaced(absl::Span<const int64_t> indices, Batch& batch) const;
  // Parses an example's record, and appends what it holds.
  absl::Status ReadRecord(int64_t index, std::vector<std::string>& record,
                          std::vector<double>& numbers, std::vector<uint64_t>& keys) const;

  // Const after Create.
  const CsvColumns columns_;
  absl::optional<CsvLayout> layout_;
  v1::CsvPreparation preparation_;
  std::vector<int32_t> labels_;
  // Small files: [examples, dense_features] and [examples, fields].
  std::vector<float> dense_;
  std::vector<uint64_t> keys_;
  // Large files. File f has the examples from first_[f] on; an example's record begins at this
  // place of its file's text.
  std::vector<Text> texts_;
  std::vector<int64_t> first_;
  std::vector<uint64_t> offsets_;
  DatasetInfo info_;
  uint64_t fingerprint_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_DATASET_H_
