#include "worker/predict/trained_model.h"

#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "proto/data_preparation.pb.h"
#include "proto/job.pb.h"
#include "worker/models/checks.h"
#include "worker/models/create_model.h"
#include "worker/models/resolve_transformer.h"

namespace muster {

absl::StatusOr<v1::DataPreparation> PreparationOf(const SafetensorsFile& weights) {
  v1::DataPreparation preparation;
  const auto told = weights.metadata().find("data_preparation");
  if (told == weights.metadata().end()) return preparation;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (google::protobuf::util::JsonStringToMessage(told->second, &preparation, options).ok()) {
    return preparation;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(weights.path(),
                   " tells how its data were prepared in a way that this program does not read; "
                   "use a newer Muster"));
}

TrainedModel::TrainedModel(std::unique_ptr<const Model> model)
    : model_(std::move(model)), pass_(model_->NewMicroBatch()) {
  pass_->wants_probabilities = true;
}

absl::StatusOr<std::unique_ptr<TrainedModel>> TrainedModel::Create(const v1::JobSpec& spec,
                                                                   const SafetensorsFile& weights,
                                                                   const DatasetInfo& data) {
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<const Model> model,
      CreateModel(spec.model(), spec.compute(), data, {Mesh(), ResolveAdapter(spec.adapter())}));
  auto trained = absl::WrapUnique(new TrainedModel(std::move(model)));
  MUSTER_RETURN_IF_ERROR(trained->ReadTensors(weights, data));
  for (const SparseTableSpec& table : trained->model_->description().sparse_tables) {
    MUSTER_ASSIGN_OR_RETURN(ExportedRows rows, ExportedRows::Open(weights, table, spec.seed()));
    trained->rows_.push_back(std::move(rows));
  }
  return trained;
}

absl::Status TrainedModel::ReadTensors(const SafetensorsFile& weights, const DatasetInfo& data) {
  for (const TensorSpec& tensor : model_->description().tensors) {
    const auto found = weights.tensors().find(tensor.name);
    if (found == weights.tensors().end() || found->second.shape != tensor.shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the weights' tensor ", tensor.name,
          found == weights.tensors().end()
              ? std::string(" is missing")
              : absl::StrCat(" has shape [", absl::StrJoin(found->second.shape, ", "), "]"),
          ", but a model of ", DescribeData(data), " has shape [",
          absl::StrJoin(tensor.shape, ", "), "]; predict data of the kind that the job learned"));
    }
    std::vector<float>& values = values_.emplace_back(tensor.elements());
    MUSTER_RETURN_IF_ERROR(ReadAsFloats(found->second, tensor.name, 0, absl::MakeSpan(values)));
  }
  spans_.assign(values_.begin(), values_.end());
  return absl::OkStatus();
}

absl::StatusOr<const MicroBatch*> TrainedModel::Predict(const Batch& batch) {
  MUSTER_RETURN_IF_ERROR(model_->Load(batch, *pass_));
  for (size_t table = 0; table < rows_.size(); ++table) rows_[table].LookUp(pass_->sparse[table]);
  const LayerContext context = {.pass = Pass::kEvaluation};
  for (int unit = 0; unit < model_->description().units; ++unit) {
    MUSTER_RETURN_IF_ERROR(model_->Forward(context, unit, {.values = spans_}, *pass_));
  }
  return pass_.get();
}

}  // namespace muster
