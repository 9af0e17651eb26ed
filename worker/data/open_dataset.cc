#include "worker/data/open_dataset.h"

#include <vector>

#include "proto/job.pb.h"
#include "worker/data/csv_dataset.h"
#include "worker/data/idx_dataset.h"
#include "worker/data/libsvm_dataset.h"
#include "worker/data/sequence_dataset.h"
#include "worker/data/synthetic_classification.h"
#include "worker/data/synthetic_clicks.h"
#include "worker/data/text_dataset.h"

namespace muster {

absl::StatusOr<std::unique_ptr<const Dataset>> OpenDataset(const v1::DataSpec& spec,
                                                           const DatasetOptions& options) {
  switch (spec.reader_case()) {
    case v1::DataSpec::kText:
      return TextDataset::Create(spec.text().path(), options.context);
    case v1::DataSpec::kIdx:
      return IdxDataset::Create(spec.idx().images(), spec.idx().labels());
    case v1::DataSpec::kLibsvm: {
      LibsvmOptions libsvm;
      if (spec.libsvm().zero_based()) libsvm.first_index = LibsvmOptions::FirstIndex::kZero;
      return LibsvmDataset::Create(spec.libsvm().path(), libsvm);
    }
    case v1::DataSpec::kCsv: {
      CsvColumns columns;
      columns.label = spec.csv().label();
      columns.numeric.assign(spec.csv().numeric().begin(), spec.csv().numeric().end());
      columns.categorical.assign(spec.csv().categorical().begin(), spec.csv().categorical().end());
      return CsvDataset::Create(spec.csv().path(), columns);
    }
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
    case v1::DataSpec::kSequences: {
      SequenceOptions sequences;
      sequences.path = spec.sequences().path();
      sequences.tokenizer = spec.sequences().tokenizer();
      sequences.context = options.context;
      return SequenceDataset::Create(sequences);
    }
    case v1::DataSpec::READER_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "data names no reader; set one of data.text, data.sequences, data.idx, data.libsvm, "
      "data.csv, "
      "data.synthetic_clicks and data.synthetic_classification");
}

}  // namespace muster
