#include "worker/data/datasets/libsvm_dataset.h"

#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/files/check_is_text.h"
#include "common/files/file_content.h"
#include "common/text/byte_order_mark.h"
#include "common/text/data_error.h"
#include "common/text/length_of.h"
#include "worker/data/csv/csv_preparation.h"
#include "worker/data/datasets/class_preparation.h"
#include "worker/data/parsing/class_labels.h"
#include "worker/data/parsing/number.h"
#include "worker/data/parsing/target.h"
#include "worker/data/sampling/learned_from.h"

namespace muster {
namespace {

// The name of the label in a preparation, since libsvm has no names.
constexpr char kLibsvmTarget[] = "label";

// Removes the first word from `rest` and returns it; empty at the end.
absl::string_view TakeWord(absl::string_view& rest) {
  rest = absl::StripLeadingAsciiWhitespace(rest);
  size_t end = 0;
  while (end < rest.size() && !absl::ascii_isspace(rest[end])) ++end;
  const absl::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

}  // namespace

// Fills a dataset line by line.
class LibsvmDataset::Parser {
 public:
  Parser(const std::string& path, const LibsvmOptions& options, LibsvmDataset& dataset)
      : path_(path),
        first_(options.first_index == LibsvmOptions::FirstIndex::kZero ? 0 : 1),
        options_(options),
        dataset_(dataset),
        labels_(path) {}

  absl::Status ParseLine(absl::string_view line, int64_t number) {
    line = line.substr(0, line.find('#'));
    const absl::string_view label = TakeWord(line);
    if (label.empty()) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(AddLabel(label, number));
    std::optional<uint64_t> previous;
    int entry = 0;
    for (absl::string_view word = TakeWord(line); !word.empty(); word = TakeWord(line)) {
      MUSTER_RETURN_IF_ERROR(ParseEntry(word, number, ++entry, previous));
    }
    dataset_.rows_.EndExample();
    return absl::OkStatus();
  }

  // Sets the labels or targets.
  absl::Status Finish() {
    dataset_.info_.examples = dataset_.rows_.examples();
    if (dataset_.info_.examples == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "libsvm file '", path_, "' holds no example, only blank lines and comments"));
    }
    if (options_.labels == LabelKind::kNumber) return FinishTargets();
    return PrepareClasses(labels_, options_.preparation, dataset_.info_, dataset_.labels_);
  }

 private:
  absl::Status AddLabel(absl::string_view label, int64_t line) {
    if (options_.labels == LabelKind::kClass) return labels_.Add(label, line);
    const std::string what = absl::StrCat("the label, ", LengthOf(label), ",");
    MUSTER_ASSIGN_OR_RETURN(const double target, ParseTarget(label, what, path_, line));
    targets_.push_back(target);
    return absl::OkStatus();
  }

  absl::Status FinishTargets() {
    v1::DataPreparation preparation;
    v1::CsvPreparation& prepared = *preparation.mutable_csv();
    const std::vector<std::string> columns = {kLibsvmTarget};
    if (options_.preparation != nullptr) {
      prepared = *options_.preparation;
      MUSTER_RETURN_IF_ERROR(CheckPreparation(prepared, columns, LabelKind::kNumber));
    } else {
      MUSTER_ASSIGN_OR_RETURN(
          const std::vector<bool> learned_from,
          LearnedFrom(dataset_.info_.examples, options_.holdout, options_.shuffle_seed));
      ColumnMoments moments(1);
      for (size_t i = 0; i < targets_.size(); ++i) {
        if (learned_from[i]) moments.Add({targets_[i]});
      }
      AddLearned(columns, moments, LabelKind::kNumber, prepared);
    }
    for (const double target : targets_) {
      dataset_.targets_.push_back(Prepared(target, TargetColumn(prepared)));
    }
    dataset_.info_.target = ScaleOfTarget(prepared);
    dataset_.info_.preparation = preparation.SerializeAsString();
    return absl::OkStatus();
  }

  // Parses entry `entry` of the line, counted from 1.
  absl::Status ParseEntry(absl::string_view word, int64_t line, int entry,
                          std::optional<uint64_t>& previous) {
    const size_t colon = word.find(':');
    if (colon == absl::string_view::npos) {
      return LineError(path_, line,
                       absl::StrCat("entry ", entry, ", ", LengthOf(word),
                                    ", is no feature; write each as index:value"));
    }
    const absl::string_view index_text = word.substr(0, colon);
    const absl::StatusOr<uint64_t> index = ParseIndex(index_text);
    if (!index.ok()) {
      return LineError(path_, line,
                       absl::StrCat("the index of entry ", entry, ", ", LengthOf(index_text), ", ",
                                    index.status().message()));
    }
    if (*index < first_) {
      return LineError(path_, line,
                       "index 0 is below the first index, 1; if this file counts from 0, set "
                       "data.libsvm.zero_based");
    }
    if (previous.has_value() && *index <= *previous) {
      return LineError(path_, line,
                       absl::StrCat("the index of entry ", entry,
                                    " is not above the one before it; sort the line's indices and "
                                    "give each once"));
    }
    const absl::string_view value_text = word.substr(colon + 1);
    const absl::StatusOr<double> value = ParseNumber(value_text);
    if (!value.ok()) {
      return LineError(path_, line,
                       absl::StrCat("the value of entry ", entry, ", ", LengthOf(value_text), ", ",
                                    value.status().message()));
    }
    previous = *index;
    dataset_.rows_.Add(*index - first_, static_cast<float>(*value));
    return absl::OkStatus();
  }

  const std::string& path_;
  const uint64_t first_;
  const LibsvmOptions& options_;
  LibsvmDataset& dataset_;
  ClassLabels labels_;
  std::vector<double> targets_;
};

absl::StatusOr<std::unique_ptr<const LibsvmDataset>> LibsvmDataset::Create(
    const std::string& path, const LibsvmOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const FileContent file, OpenNonEmpty(path));
  MUSTER_RETURN_IF_ERROR(CheckIsText(path, file.bytes()));
  auto dataset = absl::WrapUnique(new LibsvmDataset());
  Parser parser(path, options, *dataset);
  absl::string_view rest = SkipByteOrderMark(file.bytes());
  for (int64_t line = 1; !rest.empty(); ++line) {
    const size_t end = rest.find('\n');
    MUSTER_RETURN_IF_ERROR(parser.ParseLine(rest.substr(0, end), line));
    rest.remove_prefix(end == absl::string_view::npos ? rest.size() : end + 1);
  }
  MUSTER_RETURN_IF_ERROR(parser.Finish());
  dataset->info_.sparse = true;
  // The same bytes with indices from 0, or with numbers to predict, are other data.
  const uint64_t number = options.labels == LabelKind::kNumber ? 2 : 0;
  const uint64_t first = options.first_index == LibsvmOptions::FirstIndex::kZero ? 0 : 1;
  dataset->fingerprint_ = Fingerprint(file.bytes(), number + first);
  return dataset;
}

absl::Status LibsvmDataset::Read(absl::Span<const int64_t> indices, Batch& batch) const {
  batch.Clear();
  batch.examples = static_cast<int64_t>(indices.size());
  rows_.Read(indices, batch);
  for (const int64_t index : indices) {
    if (info_.target.has_value()) {
      batch.targets.push_back(targets_[index]);
    } else {
      batch.labels.push_back(labels_[index]);
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
