#include "worker/data/csv_dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "worker/data/class_labels.h"
#include "worker/data/csv_parser.h"
#include "worker/data/data_error.h"
#include "worker/data/number.h"

namespace muster {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

absl::Status CheckColumns(const CsvColumns& columns) {
  if (columns.label.empty()) {
    return absl::InvalidArgumentError("data.csv.label is empty; name the column with the labels");
  }
  if (columns.numeric.empty() && columns.categorical.empty()) {
    return absl::InvalidArgumentError(
        "data.csv.numeric and data.csv.categorical are both empty; name at least one column to "
        "learn from");
  }
  absl::flat_hash_set<absl::string_view> used;
  used.insert(absl::string_view(columns.label));
  for (const auto* names : {&columns.numeric, &columns.categorical}) {
    for (const std::string& name : *names) {
      if (!used.insert(absl::string_view(name)).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("data.csv names column ", Quote(name),
                         " more than once; each may be label, numeric or categorical, and once"));
      }
    }
  }
  return absl::OkStatus();
}

// Bytes that differ between any two choices of columns.
std::string Identity(const CsvColumns& columns) {
  std::string identity = absl::StrCat(columns.label.size(), ":", columns.label);
  for (const auto* names : {&columns.numeric, &columns.categorical}) {
    absl::StrAppend(&identity, "/", names->size());
    for (const std::string& name : *names) absl::StrAppend(&identity, "/", name.size(), ":", name);
  }
  return identity;
}

// A header as it can stand in a message.
std::string Listing(const std::vector<std::string>& header) {
  constexpr size_t kShown = 200;
  const size_t shown = std::min(kShown, header.size());
  const std::string names = absl::StrJoin(
      header.begin(), header.begin() + shown, ", ",
      [](std::string* out, const std::string& name) { absl::StrAppend(out, Quote(name)); });
  if (shown == header.size()) return names;
  return absl::StrCat(names, " and ", header.size() - shown, " more");
}

// A category's key. Fields have key spaces of their own, so equal texts in two of them differ.
uint64_t CategoryKey(absl::string_view text, size_t field) {
  return Fingerprint(text, MixBits(field + 1));
}

// Shifts and scales every column of [examples, columns] to mean 0 and variance 1 over the values
// present, 0 in place of missing ones.
std::vector<float> Normalised(const std::vector<double>& values, size_t columns) {
  std::vector<float> normalised(values.size());
  for (size_t column = 0; column < columns; ++column) {
    // Welford's recurrences, exact 0 for a column of equal values.
    double count = 0;
    double mean = 0;
    double squares = 0;
    for (size_t i = column; i < values.size(); i += columns) {
      if (std::isnan(values[i])) continue;
      const double delta = values[i] - mean;
      mean += delta / ++count;
      squares += delta * (values[i] - mean);
    }
    const double scale = squares > 0 ? std::sqrt(count / squares) : 0;
    for (size_t i = column; i < values.size(); i += columns) {
      normalised[i] = std::isnan(values[i]) ? 0 : static_cast<float>((values[i] - mean) * scale);
    }
  }
  return normalised;
}

}  // namespace

// Fills a dataset record by record.
class CsvDataset::Builder {
 public:
  Builder(const std::string& path, const CsvColumns& columns)
      : path_(path), columns_(columns), labels_(path) {}

  absl::Status TakeHeader(std::vector<std::string> header) {
    for (std::string& name : header) absl::StripAsciiWhitespace(&name);
    header_ = std::move(header);
    MUSTER_ASSIGN_OR_RETURN(label_, Find(columns_.label));
    for (const std::string& name : columns_.numeric) {
      MUSTER_ASSIGN_OR_RETURN(numeric_.emplace_back(), Find(name));
    }
    for (const std::string& name : columns_.categorical) {
      MUSTER_ASSIGN_OR_RETURN(categorical_.emplace_back(), Find(name));
    }
    return absl::OkStatus();
  }

  absl::Status TakeRecord(const std::vector<std::string>& fields, int64_t line) {
    if (fields.size() != header_.size()) {
      return LineError(
          path_, line,
          absl::StrCat("has ", fields.size(), fields.size() == 1 ? " field" : " fields",
                       ", the header has ", header_.size(),
                       "; add what is missing or quote fields that hold commas"));
    }
    MUSTER_RETURN_IF_ERROR(labels_.Add(absl::StripAsciiWhitespace(fields[label_]), line));
    for (const size_t column : numeric_) {
      MUSTER_RETURN_IF_ERROR(TakeNumber(fields[column], column, line));
    }
    for (size_t field = 0; field < categorical_.size(); ++field) {
      const absl::string_view text = absl::StripAsciiWhitespace(fields[categorical_[field]]);
      keys_.push_back(CategoryKey(text, field));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<CsvDataset>> Finish(uint64_t content_fingerprint) {
    MUSTER_ASSIGN_OR_RETURN(ClassLabels::Result labels, labels_.Finish());
    if (labels.labels.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "CSV file '", path_, "' has a header and no line after it; training needs examples"));
    }
    auto dataset = absl::WrapUnique(new CsvDataset());
    dataset->dense_ = Normalised(numbers_, numeric_.size());
    dataset->keys_ = std::move(keys_);
    dataset->labels_ = std::move(labels.labels);
    dataset->info_.examples = static_cast<int64_t>(dataset->labels_.size());
    dataset->info_.dense_features = static_cast<int64_t>(numeric_.size());
    dataset->info_.sparse = !categorical_.empty();
    dataset->info_.fields = static_cast<int64_t>(categorical_.size());
    dataset->info_.classes = labels.classes;
    // The same file with other columns is other data.
    dataset->fingerprint_ = Fingerprint(Identity(columns_), content_fingerprint);
    return dataset;
  }

 private:
  // Position of a column in the header.
  absl::StatusOr<size_t> Find(const std::string& name) const {
    const auto found = std::find(header_.begin(), header_.end(), name);
    if (found == header_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("CSV file '", path_, "' has no column ",
                                                     Quote(name),
                                                     "; its header is: ", Listing(header_)));
    }
    if (std::find(found + 1, header_.end(), name) != header_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("CSV file '", path_, "' has column ",
                                                     Quote(name), " more than once; rename one"));
    }
    return found - header_.begin();
  }

  absl::Status TakeNumber(absl::string_view field, size_t column, int64_t line) {
    const absl::string_view text = absl::StripAsciiWhitespace(field);
    if (text.empty()) {
      numbers_.push_back(kMissing);
      return absl::OkStatus();
    }
    const absl::StatusOr<double> number = ParseNumber(text);
    if (!number.ok()) {
      return LineError(
          path_, line,
          absl::StrCat("value ", Quote(text), " in numeric column ", Quote(header_[column]), " ",
                       number.status().message(), "; leave a missing value empty"));
    }
    numbers_.push_back(*number);
    return absl::OkStatus();
  }

  const std::string& path_;
  const CsvColumns& columns_;
  std::vector<std::string> header_;
  // Positions in the header.
  size_t label_ = 0;
  std::vector<size_t> numeric_;
  std::vector<size_t> categorical_;
  // Row-major.
  std::vector<double> numbers_;
  std::vector<uint64_t> keys_;
  ClassLabels labels_;
};

absl::StatusOr<std::unique_ptr<const CsvDataset>> CsvDataset::Create(const std::string& path,
                                                                     const CsvColumns& columns) {
  MUSTER_RETURN_IF_ERROR(CheckColumns(columns));
  MUSTER_ASSIGN_OR_RETURN(const FileContent file, OpenNonEmpty(path));
  CsvParser parser(file.bytes(), path);
  std::vector<std::string> fields;
  MUSTER_ASSIGN_OR_RETURN(bool more, parser.Next(fields));
  if (!more) {
    return absl::InvalidArgumentError(
        absl::StrCat("CSV file '", path, "' holds blank lines only; its header is missing"));
  }
  Builder builder(path, columns);
  MUSTER_RETURN_IF_ERROR(builder.TakeHeader(fields));
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(more, parser.Next(fields));
    if (!more) break;
    MUSTER_RETURN_IF_ERROR(builder.TakeRecord(fields, parser.line()));
  }
  return builder.Finish(Fingerprint(file.bytes()));
}

absl::Status CsvDataset::Read(absl::Span<const int64_t> indices, Batch& batch) const {
  batch.Clear();
  batch.examples = static_cast<int64_t>(indices.size());
  const int64_t features = info_.dense_features;
  const int64_t fields = info_.fields;
  for (const int64_t index : indices) {
    const auto dense = dense_.begin() + index * features;
    batch.dense.insert(batch.dense.end(), dense, dense + features);
    batch.labels.push_back(labels_[index]);
    if (fields == 0) continue;
    const auto keys = keys_.begin() + index * fields;
    batch.keys.insert(batch.keys.end(), keys, keys + fields);
    batch.offsets.push_back(static_cast<int64_t>(batch.keys.size()));
  }
  batch.values.assign(batch.keys.size(), 1.0f);
  return absl::OkStatus();
}

}  // namespace muster
