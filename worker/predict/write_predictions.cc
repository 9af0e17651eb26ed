#include "worker/predict/write_predictions.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/predicts_examples.h"
#include "common/plan/ranks/planned_stages.h"
#include "common/safetensors/safetensors_file.h"
#include "proto/data_preparation.pb.h"
#include "proto/job.pb.h"
#include "worker/predict/open_examples.h"
#include "worker/predict/prediction_columns.h"
#include "worker/predict/trained_model.h"

namespace muster {
namespace {

// Returns the columns that stand after those of the examples.
PredictionColumns ColumnsFor(const TrainedModel& model, const ExampleSource& examples,
                             const v1::DataPreparation& preparation) {
  if (examples.info().target.has_value()) {
    return PredictionColumns(*examples.info().target, examples.separator());
  }
  const std::vector<std::string> names(preparation.csv().classes().begin(),
                                       preparation.csv().classes().end());
  return PredictionColumns(model.classes(), names, examples.separator());
}

absl::Status CheckNames(const PredictionColumns& columns, const ExampleSource& examples) {
  for (const std::string& name : columns.names()) {
    if (!examples.HasColumn(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the data have a column '", name,
                     "' already, as one with the predictions is called; rename or remove it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> WritePredictions(
    const v1::JobSpec& spec, const std::string& weights,
    const std::function<absl::Status(absl::string_view)>& sink) {
  MUSTER_RETURN_IF_ERROR(CheckPredictsExamples(spec, "the job"));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const SafetensorsFile> file,
                          SafetensorsFile::Open(weights));
  MUSTER_ASSIGN_OR_RETURN(const v1::DataPreparation preparation, PreparationOf(*file));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<ExampleSource> examples,
                          OpenExamples(spec, preparation));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<TrainedModel> model,
                          TrainedModel::Create(spec, *file, examples->info()));
  // As many as an evaluation runs at once.
  const int64_t at_once = static_cast<int64_t>(ExamplesOfPass(/*labels_per_example=*/1));
  std::optional<PredictionColumns> columns;
  Batch batch;
  std::vector<std::string> lines;
  std::string text;
  int64_t written = 0;
  while (true) {
    MUSTER_RETURN_IF_ERROR(examples->Next(at_once, batch, lines));
    if (batch.examples == 0) return written;
    MUSTER_ASSIGN_OR_RETURN(const MicroBatch* const results, model->Predict(batch));
    text.clear();
    if (!columns.has_value()) {
      columns.emplace(ColumnsFor(*model, *examples, preparation));
      MUSTER_RETURN_IF_ERROR(CheckNames(*columns, *examples));
      if (const absl::optional<absl::string_view> header = examples->header(); header.has_value()) {
        absl::StrAppend(&text, *header);
        columns->AppendNames(text);
        text.push_back('\n');
      }
    }
    for (int64_t i = 0; i < batch.examples; ++i) {
      absl::StrAppend(&text, lines[i]);
      columns->AppendPredictions(*results, i, text);
      text.push_back('\n');
    }
    MUSTER_RETURN_IF_ERROR(sink(text));
    written += batch.examples;
  }
}

}  // namespace muster
