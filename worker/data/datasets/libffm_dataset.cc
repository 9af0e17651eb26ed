#include "worker/data/datasets/libffm_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/documents/line_reader.h"
#include "common/files/check_is_text.h"
#include "common/text/data_error.h"
#include "common/text/length_of.h"
#include "worker/data/datasets/class_preparation.h"
#include "worker/data/parsing/class_labels.h"
#include "worker/data/parsing/number.h"

namespace muster {
namespace {

// Stands for a feature that a line lacks. No file has it: it counts features from 0.
constexpr uint64_t kMissingFeature = ~uint64_t{0};

// Each field has its own key space, so equal features of two fields differ.
uint64_t FeatureKey(uint64_t field, uint64_t feature) {
  return MixBits(feature + MixBits(field + 1));
}

}  // namespace

// Fills a dataset line by line.
class LibffmDataset::Parser {
 public:
  Parser(const std::string& path, const LibffmOptions& options, LibffmDataset& dataset)
      : path_(path), options_(options), dataset_(dataset), labels_(path) {}

  absl::Status ParseLine(absl::string_view line, int64_t number) {
    line_ = number;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\v\f\r"), absl::SkipEmpty());
    if (words.empty()) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(labels_.Add(words[0], number));
    entries_.clear();
    for (size_t i = 1; i < words.size(); ++i) MUSTER_RETURN_IF_ERROR(ParseEntry(words[i], i));
    if (one_per_field()) return AddFields();
    for (const Entry& entry : entries_) {
      dataset_.rows_.Add(FeatureKey(entry.field, entry.feature), entry.value);
    }
    dataset_.rows_.EndExample();
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (dataset_.rows_.examples() == 0 && examples_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("libffm file '", path_, "' holds no example, only blank lines"));
    }
    if (one_per_field()) FillFields();
    DatasetInfo& info = dataset_.info_;
    info.examples = dataset_.rows_.examples();
    info.sparse = true;
    return PrepareClasses(labels_, options_.preparation, info, dataset_.labels_);
  }

 private:
  struct Entry {
    uint64_t field = 0;
    uint64_t feature = 0;
    float value = 0;
  };

  bool one_per_field() const { return options_.features == FeatureForm::kOnePerField; }

  absl::Status EntryError(size_t entry, absl::string_view what) const {
    return LineError(path_, line_, absl::StrCat("entry ", entry, " ", what));
  }

  // Parses entry `entry` of the line, counted from 1.
  absl::Status ParseEntry(absl::string_view word, size_t entry) {
    const std::vector<absl::string_view> parts = absl::StrSplit(word, ':');
    if (parts.size() != 3) {
      return EntryError(entry, absl::StrCat("has ", parts.size(), " parts with ':' between them; ",
                                            "write each as field:feature:value",
                                            parts.size() == 2 ? ", or read the file as libsvm data "
                                                                "(data.libsvm)"
                                                              : ""));
    }
    Entry& parsed = entries_.emplace_back();
    for (const auto& [text, name, number] :
         {std::make_tuple(parts[0], "field", &parsed.field),
          std::make_tuple(parts[1], "feature", &parsed.feature)}) {
      const absl::StatusOr<uint64_t> index = ParseIndex(text);
      if (!index.ok()) {
        return EntryError(entry, absl::StrCat("has a ", name, ", ", LengthOf(text), ", that ",
                                              index.status().message()));
      }
      *number = *index;
    }
    const absl::StatusOr<double> value = ParseNumber(parts[2]);
    if (!value.ok()) {
      return EntryError(entry, absl::StrCat("has a value, ", LengthOf(parts[2]), ", that ",
                                            value.status().message()));
    }
    parsed.value = static_cast<float>(*value);
    return one_per_field() ? CheckField(parsed, entry) : absl::OkStatus();
  }

  absl::Status CheckField(const Entry& parsed, size_t entry) const {
    if (parsed.value != 1) {
      return EntryError(entry,
                        "has another value than 1, but model.deep_fm reads features that are there "
                        "or not; take logistic_regression, or make features of ranges of values");
    }
    if (parsed.field < kMostFields) return absl::OkStatus();
    return EntryError(
        entry, absl::StrCat("is of field ", parsed.field, "; model.deep_fm reads fields 0 to ",
                            kMostFields - 1, ", so number fields from 0"));
  }

  absl::Status AddFields() {
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.field < b.field; });
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (i > 0 && entries_[i].field == entries_[i - 1].field) {
        return LineError(path_, line_,
                         absl::StrCat("the line has two features of field ", entries_[i].field,
                                      ", but model.deep_fm reads one of each; take "
                                      "logistic_regression, or make a field of each"));
      }
      fields_ = std::max(fields_, entries_[i].field + 1);
      features_.push_back(entries_[i]);
    }
    examples_.push_back(features_.size());
    return absl::OkStatus();
  }

  // Makes examples of all fields, whose number is known at the end of the file.
  void FillFields() {
    size_t next = 0;
    for (const size_t end : examples_) {
      for (uint64_t field = 0; field < fields_; ++field) {
        const bool is_there = next < end && features_[next].field == field;
        const uint64_t feature = is_there ? features_[next++].feature : kMissingFeature;
        dataset_.rows_.Add(FeatureKey(field, feature), 1);
      }
      dataset_.rows_.EndExample();
    }
    dataset_.info_.fields = static_cast<int64_t>(fields_);
  }

  const std::string& path_;
  const LibffmOptions& options_;
  LibffmDataset& dataset_;
  ClassLabels labels_;
  int64_t line_ = 0;
  std::vector<Entry> entries_;
  // Filled where there is one feature per field: those of all lines, and where each line's end.
  std::vector<Entry> features_;
  std::vector<size_t> examples_;
  uint64_t fields_ = 0;
};

absl::StatusOr<std::unique_ptr<const LibffmDataset>> LibffmDataset::Create(
    const std::string& path, const LibffmOptions& options) {
  auto dataset = absl::WrapUnique(new LibffmDataset());
  Parser parser(path, options, *dataset);
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(path));
  absl::string_view line;
  for (;;) {
    const absl::StatusOr<bool> more = reader->Next(line);
    // It is the file that is wrong, and no disk that failed.
    if (absl::IsDataLoss(more.status())) {
      return absl::InvalidArgumentError(std::string(more.status().message()));
    }
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (reader->line() == 1) MUSTER_RETURN_IF_ERROR(CheckIsText(path, line));
    dataset->fingerprint_ = Fingerprint(line, dataset->fingerprint_);
    MUSTER_RETURN_IF_ERROR(parser.ParseLine(line, reader->line()));
  }
  MUSTER_RETURN_IF_ERROR(parser.Finish());
  return dataset;
}

absl::Status LibffmDataset::Read(absl::Span<const int64_t> indices, Batch& batch) const {
  batch.Clear();
  batch.examples = static_cast<int64_t>(indices.size());
  rows_.Read(indices, batch);
  for (const int64_t index : indices) batch.labels.push_back(labels_[index]);
  return absl::OkStatus();
}

}  // namespace muster
