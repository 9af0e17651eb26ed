#include "worker/data/datasets/open_dataset.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/csv/csv_columns.h"
#include "common/job_data/source_arguments.h"
#include "proto/data_preparation.pb.h"
#include "proto/job.pb.h"
#include "worker/data/csv/csv_dataset.h"
#include "worker/data/datasets/idx_dataset.h"
#include "worker/data/datasets/libffm_dataset.h"
#include "worker/data/datasets/libsvm_dataset.h"
#include "worker/data/datasets/mixture_dataset.h"
#include "worker/data/datasets/sequence_dataset.h"
#include "worker/data/datasets/shuffled_dataset.h"
#include "worker/data/datasets/synthetic_classification.h"
#include "worker/data/datasets/synthetic_clicks.h"
#include "worker/data/datasets/text_dataset.h"

namespace muster {
namespace {

// Returns whether a random share of the examples is held out.
bool IsShuffled(const v1::DataSpec& spec) {
  return spec.shuffle_holdout() && spec.holdout() > 0 && spec.holdout() < 1;
}

// Returns the preparation that the weights came with.
absl::StatusOr<v1::DataPreparation> KeptPreparation(const DatasetOptions& options) {
  v1::DataPreparation kept;
  if (kept.ParseFromString(options.preparation)) return kept;
  return absl::InvalidArgumentError(
      "the preparation of data that the weights came with is damaged; take another checkpoint");
}

absl::StatusOr<std::unique_ptr<const Dataset>> OpenCsv(const v1::DataSpec& spec,
                                                       const DatasetOptions& given) {
  const v1::CsvData& csv = spec.csv();
  MUSTER_ASSIGN_OR_RETURN(CsvColumns columns, CsvColumnsOf(csv));
  columns.label_kind = given.labels;
  CsvOptions options;
  options.holdout = spec.holdout();
  if (IsShuffled(spec)) options.shuffle_seed = given.seed;
  MUSTER_ASSIGN_OR_RETURN(const v1::DataPreparation kept, KeptPreparation(given));
  if (kept.has_csv()) options.preparation = &kept.csv();
  return CsvDataset::Create(csv.path(), columns, options);
}

absl::StatusOr<std::unique_ptr<const Dataset>> OpenLibsvm(const v1::DataSpec& spec,
                                                          const DatasetOptions& given) {
  LibsvmOptions options;
  if (spec.libsvm().zero_based()) options.first_index = LibsvmOptions::FirstIndex::kZero;
  options.labels = given.labels;
  options.holdout = spec.holdout();
  if (IsShuffled(spec)) options.shuffle_seed = given.seed;
  MUSTER_ASSIGN_OR_RETURN(const v1::DataPreparation kept, KeptPreparation(given));
  if (kept.has_csv()) options.preparation = &kept.csv();
  return LibsvmDataset::Create(spec.libsvm().path(), options);
}

absl::StatusOr<std::unique_ptr<const Dataset>> OpenLibffm(const v1::DataSpec& spec,
                                                          const DatasetOptions& given) {
  LibffmOptions options;
  options.features = given.features;
  MUSTER_ASSIGN_OR_RETURN(const v1::DataPreparation kept, KeptPreparation(given));
  if (kept.has_csv()) options.preparation = &kept.csv();
  return LibffmDataset::Create(spec.libffm().path(), options);
}

// Checks that the reader has labels of this kind.
absl::Status CheckLabels(const v1::DataSpec& spec, LabelKind labels) {
  if (labels == LabelKind::kClass || spec.has_csv() || spec.has_libsvm() ||
      spec.reader_case() == v1::DataSpec::READER_NOT_SET) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "data.", v1::DataSpec::descriptor()->FindFieldByNumber(spec.reader_case())->name(),
      " has no numbers to predict, as the model does; take data.csv or data.libsvm, whose labels "
      "can be numbers"));
}

absl::StatusOr<std::unique_ptr<const Dataset>> OpenSequences(const v1::SequenceData& sequences,
                                                             const DatasetOptions& given) {
  SequenceOptions options;
  options.path = sequences.path();
  options.tokenizer = sequences.tokenizer();
  options.context = given.context;
  if (sequences.packing() == v1::SequenceData::WITHIN_DOCUMENTS) {
    options.packing = SequenceOptions::Packing::kWithinDocuments;
  }
  if (sequences.packing() == v1::SequenceData::WHOLE_DOCUMENTS) {
    options.packing = SequenceOptions::Packing::kWholeDocuments;
  }
  if (given.prepared != nullptr && NeedsTokenFile(sequences)) {
    options.preparing = given.prepared;
    options.documents = SourceArgumentsOf(sequences);
  }
  return SequenceDataset::Create(options);
}

// Opens the sources of a mixture, each with its examples in the order that says which are held out.
absl::StatusOr<std::unique_ptr<const Dataset>> OpenMixture(const v1::DataSpec& spec,
                                                           const DatasetOptions& given) {
  std::vector<MixtureDataset::Source> sources;
  for (const v1::MixtureSource& source : spec.mixture().sources()) {
    auto sequences = OpenSequences(source.sequences(), given);
    if (!sequences.ok()) {
      return absl::Status(sequences.status().code(),
                          absl::StrCat("the mixture's source \"", source.name(),
                                       "\": ", sequences.status().message()));
    }
    if (IsShuffled(spec)) {
      sequences = std::make_unique<ShuffledDataset>(*std::move(sequences), given.seed);
    }
    sources.push_back({source.name(), *std::move(sequences)});
  }
  return MixtureDataset::Create(std::move(sources), spec.holdout());
}

// Opens the dataset with its examples in the order of the data.
absl::StatusOr<std::unique_ptr<const Dataset>> OpenReader(const v1::DataSpec& spec,
                                                          const DatasetOptions& options) {
  switch (spec.reader_case()) {
    case v1::DataSpec::kText:
      return TextDataset::Create(spec.text().path(), options.context);
    case v1::DataSpec::kIdx:
      return IdxDataset::Create(spec.idx().images(), spec.idx().labels());
    case v1::DataSpec::kLibsvm:
      return OpenLibsvm(spec, options);
    case v1::DataSpec::kLibffm:
      return OpenLibffm(spec, options);
    case v1::DataSpec::kCsv:
      return OpenCsv(spec, options);
    case v1::DataSpec::kSyntheticClicks: {
      SyntheticClicksOptions clicks;
      clicks.examples = spec.synthetic_clicks().examples();
      clicks.fields = spec.synthetic_clicks().fields();
      clicks.cardinality = spec.synthetic_clicks().cardinality();
      clicks.numeric = spec.synthetic_clicks().numeric();
      clicks.seed = spec.synthetic_clicks().seed();
      return SyntheticClicks::Create(clicks);
    }
    case v1::DataSpec::kSyntheticClassification: {
      SyntheticClassificationOptions clusters;
      clusters.examples = spec.synthetic_classification().examples();
      clusters.features = spec.synthetic_classification().features();
      clusters.classes = spec.synthetic_classification().classes();
      clusters.seed = spec.synthetic_classification().seed();
      return SyntheticClassification::Create(clusters);
    }
    case v1::DataSpec::kSequences:
      return OpenSequences(spec.sequences(), options);
    case v1::DataSpec::kMixture:
      return OpenMixture(spec, options);
    case v1::DataSpec::READER_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "data names no reader; set one of data.text, data.sequences, data.mixture, data.idx, "
      "data.libsvm, data.libffm, "
      "data.csv, data.synthetic_clicks and data.synthetic_classification");
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Dataset>> OpenDataset(const v1::DataSpec& spec,
                                                           const DatasetOptions& options) {
  MUSTER_RETURN_IF_ERROR(CheckLabels(spec, options.labels));
  auto dataset = OpenReader(spec, options);
  // A mixture's sources are shuffled each by itself.
  if (!dataset.ok() || !IsShuffled(spec) || spec.has_mixture()) return dataset;
  return std::make_unique<ShuffledDataset>(*std::move(dataset), options.seed);
}

}  // namespace muster
